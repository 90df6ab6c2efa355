"""The official Python clients of OpenAI and Anthropic against a live server.

They are not in distributions' packages, so these tests are skipped where they are missing:
pip install openai anthropic
"""

import json
import unittest

from live_server import LiveTest

try:
    import openai
except ImportError:
    openai = None
try:
    import anthropic
except ImportError:
    anthropic = None

STORY = [{"role": "user", "content": "Tell me a story about a dog."}]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}


@unittest.skipUnless(openai, "the openai package is not installed")
class OpenAiTest(LiveTest):
    OPTIONS = ("--api-key", "secret")

    def setUp(self):
        url = f"http://127.0.0.1:{self.server.port}/v1"
        self.client = openai.OpenAI(base_url=url, api_key="secret", max_retries=0)
        self.addCleanup(self.client.close)
        self.model = self.client.models.list().data[0].id

    def chat(self, **fields):
        fields = {"model": self.model, "messages": STORY, "max_tokens": 12, **fields}
        return self.client.chat.completions.create(**fields)

    def test_chat(self):
        answer = self.chat()
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual(answer.usage.completion_tokens, 12)
        self.assertIsNotNone(answer.usage.prompt_tokens_details.cached_tokens)
        with self.chat(stream=True, stream_options={"include_usage": True}) as stream:
            chunks = list(stream)
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, answer.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens, 12)

    def test_logprobs(self):
        content = self.chat(logprobs=True, top_logprobs=3).choices[0].logprobs.content
        self.assertEqual(len(content), 12)
        self.assertEqual(len(content[0].top_logprobs), 3)

    def test_tools(self):
        tools = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
        fields = {"tools": tools, "tool_choice": "required", "max_tokens": 100}
        message = self.chat(**fields).choices[0].message
        call = message.tool_calls[0]
        self.assertIn(json.loads(call.function.arguments)["city"], ("Rome", "Oslo"))
        result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
        self.assertTrue(self.chat(messages=STORY + [message, result], tools=tools).choices)
        with self.client.chat.completions.stream(
            model=self.model, messages=STORY, **fields
        ) as stream:
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].message.tool_calls[0].function.name, "weather")

    def test_structured_output(self):
        schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": PARAMETERS}}
        text = self.chat(response_format=schema, max_tokens=100).choices[0].message.content
        self.assertIn(json.loads(text)["city"], ("Rome", "Oslo"))

    def test_completions(self):
        answer = self.client.completions.create(
            model=self.model, prompt="Once upon a time", max_tokens=8, logprobs=2
        )
        self.assertEqual(len(answer.choices[0].logprobs.tokens), 8)

    def test_responses(self):
        fields = {"model": self.model, "input": "Tell me a story.", "max_output_tokens": 12}
        response = self.client.responses.create(**fields)
        self.assertGreater(len(response.output_text), 5)
        with self.client.responses.stream(**fields) as stream:
            events = list(stream)
        text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        self.assertEqual(text, response.output_text)
        self.assertEqual(events[-1].response.usage.output_tokens, 12)

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(temperature=-1)
        self.assertEqual(raised.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")
        with self.assertRaises(openai.AuthenticationError):
            self.client.with_options(api_key="wrong").models.list()


@unittest.skipUnless(anthropic, "the anthropic package is not installed")
class AnthropicTest(LiveTest):
    OPTIONS = ("--api-key", "secret")

    def setUp(self):
        url = f"http://127.0.0.1:{self.server.port}"
        self.client = anthropic.Anthropic(base_url=url, api_key="secret", max_retries=0)
        self.addCleanup(self.client.close)

    def fields(self, **fields):
        return {"model": "any", "messages": STORY, "max_tokens": 12, **fields}

    def test_messages(self):
        message = self.client.messages.create(**self.fields(system="Be brief."))
        self.assertEqual(message.stop_reason, "max_tokens")
        self.assertEqual(message.usage.output_tokens, 12)
        with self.client.messages.stream(**self.fields(system="Be brief.")) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, message.content[0].text)
        self.assertEqual(final.stop_reason, "max_tokens")

    def test_tools(self):
        tools = [{"name": "weather", "input_schema": PARAMETERS}]
        fields = self.fields(tools=tools, tool_choice={"type": "any"}, max_tokens=100)
        message = self.client.messages.create(**fields)
        self.assertEqual(message.stop_reason, "tool_use")
        call = message.content[0]
        self.assertIn(call.input["city"], ("Rome", "Oslo"))
        with self.client.messages.stream(**fields) as stream:
            final = stream.get_final_message()
        self.assertEqual(final.content[0].input, call.input)
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
        messages = STORY + [
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": [result]},
        ]
        self.assertTrue(self.client.messages.create(**self.fields(messages=messages, tools=tools)))

    def test_count_tokens(self):
        count = self.client.messages.count_tokens(model="any", messages=STORY)
        self.assertGreater(count.input_tokens, 5)

    def test_errors(self):
        with self.assertRaises(anthropic.BadRequestError):
            self.client.messages.create(**self.fields(extra_body={"temperature": -1}))
        with self.assertRaises(anthropic.AuthenticationError):
            self.client.with_options(api_key="wrong").messages.create(**self.fields())


if __name__ == "__main__":
    unittest.main()
