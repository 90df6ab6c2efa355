"""OpenAI's API against a live server, spoken with Python's standard library.

python3 -m unittest discover -s tests/serve -p '*_test.py'
"""

import json
import unittest

from live_server import LiveTest

STORY = [{"role": "user", "content": "Tell me a story about a dog."}]
CHAT = "/v1/chat/completions"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "enum": ["Rome", "Oslo"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}


class ChatTest(LiveTest):
    def ask(self, **fields):
        body = {"messages": STORY, "max_tokens": 12, **fields}
        reply = self.server.post(CHAT, body)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json()

    def stream(self, **fields):
        body = {"messages": STORY, "max_tokens": 12, **fields}
        events = self.server.stream(CHAT, body).all()
        self.assertEqual(events[-1], ("", "[DONE]"))
        return [data for _, data in events[:-1]]

    @staticmethod
    def joined(chunks, index=0):
        return "".join(
            choice["delta"].get("content") or ""
            for chunk in chunks
            for choice in chunk["choices"]
            if choice["index"] == index
        )

    def test_an_answer_has_the_form_that_clients_expect(self):
        answer = self.ask()
        self.assertEqual(answer["object"], "chat.completion")
        (choice,) = answer["choices"]
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(choice["message"]["role"], "assistant")
        self.assertGreater(len(choice["message"]["content"]), 10)
        usage = answer["usage"]
        self.assertEqual(usage["completion_tokens"], 12)
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + 12)
        self.assertEqual(answer["timings"]["predicted_n"], 12)
        self.assertGreater(answer["timings"]["predicted_per_second"], 0)

    def test_a_stream_brings_the_same_text(self):
        whole = self.ask()["choices"][0]["message"]["content"]
        chunks = self.stream()
        self.assertEqual(self.joined(chunks), whole)
        self.assertEqual(chunks[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "length")
        self.assertEqual(len({chunk["id"] for chunk in chunks}), 1)
        self.assertNotIn("usage", chunks[-1])

    def test_usage_comes_last_when_it_is_asked_for(self):
        chunks = self.stream(stream_options={"include_usage": True})
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"], 12)
        self.assertTrue(all(chunk["usage"] is None for chunk in chunks[:-1]))

    def test_the_prompt_is_reused(self):
        self.ask(messages=[{"role": "user", "content": "Something else."}])
        self.ask()
        usage = self.ask()["usage"]
        self.assertEqual(
            usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"] - 1
        )

    def test_seeds_repeat_an_answer(self):
        draws = {"temperature": 1.2, "max_tokens": 30}
        first = self.ask(seed=7, **draws)["choices"][0]["message"]["content"]
        self.assertEqual(self.ask(seed=7, **draws)["choices"][0]["message"]["content"], first)
        others = {self.ask(**draws)["choices"][0]["message"]["content"] for _ in range(3)}
        self.assertGreater(len(others), 1)

    def test_several_choices(self):
        body = {"n": 3, "temperature": 1.2, "seed": 7, "max_tokens": 20}
        answer = self.ask(**body)
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2])
        texts = [choice["message"]["content"] for choice in answer["choices"]]
        self.assertEqual(len(set(texts)), 3)
        self.assertEqual(answer["usage"]["completion_tokens"], 60)
        chunks = self.stream(**body)
        self.assertEqual([self.joined(chunks, i) for i in range(3)], texts)

    def test_stop_ends_before_its_text(self):
        whole = self.ask(max_tokens=40)["choices"][0]["message"]["content"]
        word = whole.split()[6]
        answer = self.ask(max_tokens=40, stop=[word])["choices"][0]
        self.assertEqual(answer["finish_reason"], "stop")
        self.assertEqual(answer["message"]["content"], whole[: whole.index(word)])
        chunks = self.stream(max_tokens=40, stop=word)
        self.assertEqual(self.joined(chunks), whole[: whole.index(word)])

    def test_logprobs(self):
        choice = self.ask(logprobs=True, top_logprobs=4)["choices"][0]
        content = choice["logprobs"]["content"]
        self.assertEqual(len(content), 12)
        for token in content:
            self.assertEqual(len(token["top_logprobs"]), 4)
            self.assertEqual(token["top_logprobs"][0]["token"], token["token"], "greedy")
            self.assertLessEqual(token["logprob"], 0)
            self.assertEqual(bytes(token["bytes"]).decode(), token["token"])
        text = "".join(token["token"] for token in content)
        self.assertEqual(text, choice["message"]["content"])
        chunks = self.stream(logprobs=True, top_logprobs=4)
        streamed = [
            token
            for chunk in chunks
            for choice in chunk["choices"]
            for token in (choice["logprobs"] or {"content": []})["content"]
        ]
        self.assertEqual(streamed, content)

    def test_logit_bias(self):
        token = self.server.post("/v1/completions", {"prompt": "a", "max_tokens": 1, "logprobs": 1})
        del token
        first = self.ask(logprobs=True)["choices"][0]["logprobs"]["content"][0]
        answer = self.ask(logit_bias={str(self.id_of(first["token"])): -100}, logprobs=True)
        self.assertNotEqual(answer["choices"][0]["logprobs"]["content"][0]["token"], first["token"])

    def id_of(self, text):
        """The id of a token: the one whose bias makes it come."""
        for token in range(8192):
            body = {"prompt": [token], "max_tokens": 0, "echo": True}
            if self.server.post("/v1/completions", body).json()["choices"][0]["text"] == text:
                return token
        self.fail(f"no token {text!r}")

    def test_json_schema(self):
        schema = {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
            "required": ["name", "age"],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
        for seed in range(5):
            answer = self.ask(response_format=form, temperature=2, seed=seed, max_tokens=200)
            person = json.loads(answer["choices"][0]["message"]["content"])
            self.assertEqual(list(person), ["name", "age"])
            self.assertIsInstance(person["age"], int)

    def test_json_object_and_grammar(self):
        answer = self.ask(response_format={"type": "json_object"}, max_tokens=300, stop=["\n\n\n"])
        self.assertTrue(answer["choices"][0]["message"]["content"].lstrip().startswith("{"))
        answer = self.ask(grammar='root ::= "yes" | "no"')
        self.assertIn(answer["choices"][0]["message"]["content"], ("yes", "no"))
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")

    def test_a_tool_that_must_be_called_is_called_well(self):
        other = json.loads(json.dumps(TOOL).replace("get_weather", "get_weather_now"))
        for choice, names in (
            ("required", {"get_weather", "get_weather_now"}),
            ({"type": "function", "function": {"name": "get_weather"}}, {"get_weather"}),
        ):
            for seed in range(3):
                fields = {"tools": [TOOL, other], "tool_choice": choice, "seed": seed}
                answer = self.ask(**fields, temperature=2, max_tokens=200)["choices"][0]
                self.assertEqual(answer["finish_reason"], "tool_calls")
                self.assertIsNone(answer["message"]["content"])
                (call,) = answer["message"]["tool_calls"]
                self.assertIn(call["function"]["name"], names)
                arguments = json.loads(call["function"]["arguments"])
                self.assertIn(arguments["city"], ("Rome", "Oslo"))
                self.assertIn(arguments["days"], range(1, 10))
        chunks = self.stream(**fields, temperature=2, max_tokens=200)
        calls = [c for chunk in chunks for c in chunk["choices"][0]["delta"].get("tool_calls", [])]
        self.assertEqual(calls[0]["index"], 0)
        self.assertEqual(calls[0]["function"], call["function"])
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "tool_calls")

    def test_results_of_tools_go_back(self):
        messages = STORY + [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        ]
        answer = self.ask(messages=messages, tools=[TOOL])
        self.assertGreater(answer["usage"]["prompt_tokens"], 100)

    def test_an_answer_goes_on_with_its_beginning(self):
        whole = self.ask()["choices"][0]["message"]["content"]
        begun = STORY + [{"role": "assistant", "content": whole[:20]}]
        answer = self.ask(messages=begun, max_tokens=3)["choices"][0]["message"]["content"]
        self.assertNotEqual(answer, "")
        self.assertFalse(answer.startswith(whole[:10]))

    def test_what_is_wrong_is_named(self):
        for fields, param, part in (
            ({"messages": None}, "messages", "missing"),
            ({"messages": []}, "messages", "1 to"),
            ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role", "assistant"),
            ({"messages": [{"role": "user"}]}, "messages[0].content", "missing"),
            ({"messages": ["x"]}, "messages[0]", "object"),
            ({"temperature": -1}, "temperature", "from 0 to 100"),
            ({"temperature": "hot"}, "temperature", "number"),
            ({"top_p": 2}, "top_p", "from 0 to 1"),
            ({"n": 0}, "n", "1 to 16"),
            ({"max_tokens": 1.5}, "max_tokens", "whole"),
            ({"stop": [""]}, "stop", "bytes"),
            ({"stop": ["x"] * 17}, "stop", "16"),
            ({"top_logprobs": 3}, "top_logprobs", "logprobs"),
            ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "20"),
            ({"logit_bias": {"dog": 1}}, "logit_bias.dog", "token id"),
            ({"logit_bias": {"999999": 1}}, None, "999999"),
            ({"tools": [{"type": "web_search"}]}, "tools[0].type", "functions only"),
            ({"tool_choice": "required"}, "tool_choice", "no tools"),
            ({"tool_choice": "sometimes"}, "tool_choice", "auto"),
            ({"functions": []}, "functions", "use tools"),
            ({"modalities": ["audio"]}, "modalities", "text"),
            ({"response_format": {"type": "xml"}}, "response_format.type", "json_schema"),
            ({"grammar": "root ::= ("}, "grammar", "line"),
            ({"reasoning_effort": "heroic"}, "reasoning_effort", "high"),
        ):
            with self.subTest(**fields):
                reply = self.server.post(CHAT, {"messages": STORY, "max_tokens": 5, **fields})
                error = self.assert_error(reply, 400, part)
                self.assertEqual(error["param"], param)
                self.assertEqual(error["type"], "invalid_request_error")

    def test_a_schema_that_cannot_be_enforced_is_refused(self):
        schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        reply = self.server.post(CHAT, {"messages": STORY, "response_format": form})
        self.assert_error(reply, 400, "uniqueItems")

    def test_pictures_are_refused(self):
        content = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
        reply = self.server.post(CHAT, {"messages": [{"role": "user", "content": content}]})
        self.assert_error(reply, 400, "messages[0].content[0]", "text only", "image_url")

    def test_a_prompt_beyond_the_context_is_refused(self):
        messages = [{"role": "user", "content": "long " * 5000}]
        error = self.assert_error(self.server.post(CHAT, {"messages": messages}), 400, "2048")
        self.assertEqual(error["code"], "context_length_exceeded")


class CompletionsTest(LiveTest):
    def ask(self, prompt="Once upon a time", **fields):
        reply = self.server.post("/v1/completions", {"prompt": prompt, "max_tokens": 8, **fields})
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json()

    def test_texts_and_ids_are_the_same_prompt(self):
        text = self.ask()
        self.assertEqual(text["object"], "text_completion")
        self.assertEqual(text["choices"][0]["finish_reason"], "length")
        ids = [1205, 613]
        self.assertEqual(
            self.ask(ids)["choices"][0]["text"], self.ask("Once upon")["choices"][0]["text"]
        )

    def test_several_prompts(self):
        answer = self.ask(["Once upon a time", "The dog"], n=2, temperature=1, seed=3)
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2, 3])
        alone = self.ask("The dog", n=2, temperature=1, seed=3)
        self.assertEqual(
            [choice["text"] for choice in answer["choices"][2:]],
            [choice["text"] for choice in alone["choices"]],
        )
        self.assertEqual(answer["usage"]["completion_tokens"], 32)

    def test_echo_and_logprobs(self):
        plain = self.ask()["choices"][0]["text"]
        self.assertEqual(self.ask(echo=True)["choices"][0]["text"], "Once upon a time" + plain)
        logprobs = self.ask(logprobs=2)["choices"][0]["logprobs"]
        self.assertEqual("".join(logprobs["tokens"]), plain)
        self.assertEqual(logprobs["text_offset"][0], 0)
        self.assertTrue(all(len(top) == 2 for top in logprobs["top_logprobs"]))

    def test_a_stream_brings_the_same_text(self):
        events = self.server.stream("/v1/completions", {"prompt": "The dog", "max_tokens": 9}).all()
        text = "".join(data["choices"][0]["text"] for _, data in events[:-1])
        self.assertEqual(text, self.ask("The dog", max_tokens=9)["choices"][0]["text"])

    def test_what_is_wrong_is_named(self):
        for fields, param in (
            ({"prompt": None}, "prompt"),
            ({"prompt": []}, "prompt"),
            ({"prompt": [1, "x"]}, "prompt"),
            ({"prompt": [[1], ["x"]]}, "prompt"),
            ({"prompt": [8192]}, "prompt"),
            ({"prompt": ""}, "prompt"),
            ({"suffix": "end"}, "suffix"),
            ({"best_of": 2}, "best_of"),
            ({"logprobs": True}, "logprobs"),
        ):
            with self.subTest(**fields):
                reply = self.server.post("/v1/completions", {"prompt": "x", **fields})
                self.assertEqual(self.assert_error(reply, 400)["param"], param)


class ResponsesTest(LiveTest):
    def ask(self, **fields):
        body = {"input": "Tell me a story.", "max_output_tokens": 12, **fields}
        reply = self.server.post("/v1/responses", body)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json()

    def test_an_answer(self):
        response = self.ask(instructions="Be brief.", metadata={"a": "b"})
        self.assertEqual(response["object"], "response")
        self.assertEqual(response["status"], "incomplete")
        self.assertEqual(response["incomplete_details"]["reason"], "max_output_tokens")
        (message,) = response["output"]
        self.assertEqual(message["content"][0]["type"], "output_text")
        self.assertEqual(response["usage"]["output_tokens"], 12)
        self.assertEqual(response["metadata"], {"a": "b"})

    def test_a_stream_brings_the_same_text(self):
        text = self.ask()["output"][0]["content"][0]["text"]
        body = {"input": [{"role": "user", "content": "Tell me a story."}], "max_output_tokens": 12}
        events = self.server.stream("/v1/responses", body).all()
        self.assertEqual([data["sequence_number"] for _, data in events], list(range(len(events))))
        self.assertTrue(all(name == data["type"] for name, data in events))
        deltas = [d["delta"] for n, d in events if n == "response.output_text.delta"]
        self.assertEqual("".join(deltas), text)
        self.assertEqual(events[0][0], "response.created")
        self.assertEqual(events[-1][0], "response.incomplete")
        self.assertEqual(events[-1][1]["response"]["output"][0]["content"][0]["text"], text)

    def test_a_function_is_called_and_answered(self):
        tool = {"type": "function", **TOOL["function"]}
        fields = {"tools": [tool], "tool_choice": "required", "max_output_tokens": 200}
        (call,) = self.ask(**fields)["output"]
        self.assertEqual(call["type"], "function_call")
        self.assertEqual(set(json.loads(call["arguments"])), {"city", "days"})
        items = [
            {"role": "user", "content": "And the weather?"},
            call,
            {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"},
        ]
        self.assertEqual(self.ask(input=items, tools=[tool])["output"][0]["type"], "message")

    def test_structured_output(self):
        schema = {
            "type": "object",
            "properties": {"yes": {"type": "boolean"}},
            "required": ["yes"],
            "additionalProperties": False,
        }
        form = {"format": {"type": "json_schema", "name": "x", "schema": schema}}
        text = self.ask(text=form, max_output_tokens=50)["output"][0]["content"][0]["text"]
        self.assertIn(json.loads(text)["yes"], (True, False))

    def test_what_would_need_memory_is_refused(self):
        for fields in (
            {"previous_response_id": "resp_1"},
            {"background": True},
            {"conversation": "c"},
        ):
            reply = self.server.post("/v1/responses", {"input": "x", **fields})
            self.assertEqual(self.assert_error(reply, 400)["param"], next(iter(fields)))


if __name__ == "__main__":
    unittest.main()
