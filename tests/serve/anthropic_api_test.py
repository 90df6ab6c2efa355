"""Anthropic's API against a live server, spoken with Python's standard library."""

import json
import unittest

from live_server import LiveTest

STORY = [{"role": "user", "content": "Tell me a story about a dog."}]
TOOL = {
    "name": "get_weather",
    "description": "The weather at a place",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


class MessagesTest(LiveTest):
    def ask(self, **fields):
        reply = self.server.post("/v1/messages", {"messages": STORY, "max_tokens": 12, **fields})
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json()

    def stream(self, **fields):
        body = {"messages": STORY, "max_tokens": 12, **fields}
        return self.server.stream("/v1/messages", body).all()

    def test_an_answer_has_the_form_that_clients_expect(self):
        message = self.ask()
        self.assertEqual(message["type"], "message")
        self.assertEqual(message["role"], "assistant")
        self.assertEqual(message["stop_reason"], "max_tokens")
        self.assertIsNone(message["stop_sequence"])
        (block,) = message["content"]
        self.assertEqual(block["type"], "text")
        self.assertEqual(message["usage"]["output_tokens"], 12)

    def test_a_stream_brings_the_same_text(self):
        events = self.stream()
        self.assertTrue(all(name == data["type"] for name, data in events))
        names = [name for name, _ in events]
        self.assertEqual(names[:2], ["message_start", "content_block_start"])
        self.assertEqual(names[-3:], ["content_block_stop", "message_delta", "message_stop"])
        text = "".join(d["delta"]["text"] for n, d in events if n == "content_block_delta")
        self.assertEqual(text, self.ask()["content"][0]["text"])
        self.assertGreater(events[0][1]["message"]["usage"]["input_tokens"], 5)
        self.assertEqual(events[-2][1]["delta"]["stop_reason"], "max_tokens")
        self.assertEqual(events[-2][1]["usage"]["output_tokens"], 12)

    def test_stop_sequences_are_named(self):
        text = self.ask(max_tokens=40)["content"][0]["text"]
        word = text.split()[6]
        message = self.ask(max_tokens=40, stop_sequences=["never there", word])
        self.assertEqual(message["stop_reason"], "stop_sequence")
        self.assertEqual(message["stop_sequence"], word)
        self.assertEqual(message["content"][0]["text"], text[: text.index(word)])

    def test_system_and_blocks(self):
        system = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
        blocks = [{"role": "user", "content": [{"type": "text", "text": STORY[0]["content"]}]}]
        usage = self.ask(messages=blocks)["usage"]
        with_system = self.ask(messages=blocks, system=system)["usage"]

        def prompt(u):
            return u["input_tokens"] + u["cache_read_input_tokens"]

        self.assertEqual(prompt(usage), prompt(self.ask()["usage"]))
        self.assertGreater(prompt(with_system), prompt(usage))

    def test_a_tool_is_called_and_answered(self):
        fields = {"tools": [TOOL], "tool_choice": {"type": "any"}, "max_tokens": 200}
        message = self.ask(**fields)
        self.assertEqual(message["stop_reason"], "tool_use")
        (call,) = message["content"]
        self.assertEqual((call["type"], call["name"]), ("tool_use", "get_weather"))
        self.assertIn(call["input"]["city"], ("Rome", "Oslo"))
        events = self.stream(**fields)
        starts = [d["content_block"] for n, d in events if n == "content_block_start"]
        self.assertEqual([block["type"] for block in starts], ["tool_use"])
        parts = [d["delta"]["partial_json"] for n, d in events if n == "content_block_delta"]
        self.assertEqual(json.loads("".join(parts)), call["input"])
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "sunny"}
        messages = STORY + [
            {"role": "assistant", "content": message["content"]},
            {"role": "user", "content": [result, {"type": "text", "text": "And now?"}]},
        ]
        again = self.ask(messages=messages, tools=[TOOL])
        self.assertIn(again["stop_reason"], ("max_tokens", "end_turn"))

    def test_tokens_are_counted(self):
        count = self.server.post("/v1/messages/count_tokens", {"messages": STORY}).json()
        usage = self.ask()["usage"]
        self.assertEqual(
            count["input_tokens"], usage["input_tokens"] + usage["cache_read_input_tokens"]
        )

    def test_errors_have_anthropics_form(self):
        for fields, part in (
            ({"max_tokens": None}, "max_tokens"),
            ({"max_tokens": 0}, "max_tokens"),
            ({"messages": []}, "messages"),
            ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
            ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "text only"),
            ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search"),
            ({"tool_choice": {"type": "tool", "name": "x"}}, "no tools"),
            ({"thinking": {"type": "maybe"}}, "thinking.type"),
            ({"mcp_servers": [{}]}, "mcp_servers"),
        ):
            with self.subTest(**fields):
                reply = self.server.post(
                    "/v1/messages", {"messages": STORY, "max_tokens": 5, **fields}
                )
                self.assertEqual(reply.json()["type"], "error")
                error = self.assert_error(reply, 400, part)
                self.assertEqual(error["type"], "invalid_request_error")


if __name__ == "__main__":
    unittest.main()
