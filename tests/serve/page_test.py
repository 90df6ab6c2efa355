"""The page in a real browser: a chat, its settings, the monitor.

Screenshots for docs/: python3 tests/serve/page_test.py --screenshots docs/images
"""

import sys
import threading
import time
import unittest
from pathlib import Path

from browser import Browser, need_browser
from live_server import LiveTest, Server, need_program


BEGINNINGS = ("Once upon a time", "The sea was", "A dog named Max", "In the garden")


def setUpModule():
    need_program()
    need_browser()


class PageTest(LiveTest):
    OPTIONS = ("--expert-cache", "300")

    def setUp(self):
        self.browser = Browser()
        self.addCleanup(self.browser.close)
        self.browser.open(f"http://127.0.0.1:{self.server.port}/")
        self.browser.run("localStorage.clear()")
        self.open()

    def open(self, tab=""):
        self.browser.open("about:blank")
        self.browser.open(f"http://127.0.0.1:{self.server.port}/{tab}")
        self.browser.wait("document.title.includes('Demo')", "the model's name")

    def ask(self, text):
        self.browser.fill("#input", text)
        self.browser.click("#send")

    def answer(self):
        self.browser.wait("document.querySelector('#stop').hidden", "the answer's end")
        self.browser.wait("document.querySelector('.message.assistant .speed')", "an answer")
        return self.browser.run(
            "return [...document.querySelectorAll('.message.assistant .body')].at(-1).innerText"
        )

    def set(self, **values):
        for name, value in values.items():
            self.browser.click("#show-settings")
            self.browser.fill(f"#settings-fields [name={name}]", str(value))
            self.browser.run("document.querySelector('#settings').close()")

    def test_a_chat(self):
        self.set(max_tokens=30)
        self.ask("Tell me a story about a dog.")
        first = self.answer()
        self.assertGreater(len(first), 30)
        self.assertIn("30 tokens", self.browser.text(".speed"))
        self.ask("And then?")
        self.answer()
        self.assertEqual(self.browser.run("return document.querySelectorAll('.message').length"), 4)
        self.assertEqual(self.browser.complaints(), [])

    def test_an_answer_can_be_stopped(self):
        before = self.server.wait_until_idle()["requests"]["ended"]["cancelled"]
        self.set(max_tokens=1900, stop="never to be written")
        self.ask("Tell me a story about a dog.")
        self.browser.wait("!document.querySelector('#stop').hidden", "an answer under way")
        self.browser.click("#stop")
        self.browser.wait("document.querySelector('#stop').hidden", "the answer's end")
        after = self.server.wait_until_idle()["requests"]["ended"]
        self.assertIn(after["cancelled"] - before, (0, 1))  # 0: it had ended by itself
        self.set(max_tokens=5)
        self.ask("Still there?")
        self.browser.wait("document.querySelector('.speed')", "another answer")

    def test_chats_survive_a_reload(self):
        self.set(max_tokens=12, seed=3)
        self.ask("Tell me a story about a dog.")
        text = self.answer()
        self.open()
        self.assertEqual(
            self.browser.run("return document.querySelector('.message.assistant .body').innerText"),
            text,
        )
        self.browser.click("#new-chat")
        self.assertEqual(self.browser.run("return document.querySelectorAll('.message').length"), 0)
        self.browser.click("#chat-list .open")
        self.assertEqual(self.browser.run("return document.querySelectorAll('.message').length"), 2)
        self.browser.click("#chat-list li button:last-child")
        self.assertEqual(
            self.browser.run("return document.querySelectorAll('#chat-list li').length"), 0
        )

    def test_a_message_can_be_changed(self):
        self.set(max_tokens=8)
        self.ask("Tell me a story about a dog.")
        first = self.answer()
        self.browser.click(".message.user .tools button")
        self.browser.fill(".message textarea", "Tell me about the sea and its ships.")
        self.browser.click(".message .tools button")
        self.browser.wait("!document.querySelector('.message textarea')", "the changed message")
        second = self.answer()
        self.assertEqual(
            self.browser.text(".message.user .body"), "Tell me about the sea and its ships."
        )
        self.assertNotEqual(first, second)

    def test_errors_are_shown(self):
        self.ask("long " * 4000)
        self.browser.wait("document.querySelector('.message .error')", "an error")
        self.assertIn("2048", self.browser.text(".message .error"))

    def test_markdown_becomes_elements_and_never_markup(self):
        text = (
            "# Head\n\nSome *em* **strong** `code` [link](https://example.org)\n"
            "[bad](javascript:alert) <img src=x onerror=alert(1)>\n\n- a\n- b\n  1. c\n\n"
            "> quote\n\n```js\nlet x = '<b>';\n```\n\n"
            "| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n\nsnake_case_name 2 * 3 * 4"
        )
        html = self.browser.run(
            "return import('/markdown.js').then((m) => { const d = document.createElement('div');"
            "d.append(...m.render(arguments[0])); return d.innerHTML; })",
            text,
        )
        for part in (
            "<h3>Head</h3>",
            "<em>em</em>",
            "<strong>strong</strong>",
            "<code>code</code>",
            'href="https://example.org"',
            "<span>bad</span>",
            "&lt;img src=x onerror=alert(1)&gt;",
            "<li>a</li>",
            "<ol",
            "<blockquote><p>quote</p></blockquote>",
            "let x = '&lt;b&gt;';",
            "<td>2</td>",
            "<hr>",
            "snake_case_name 2 * 3 * 4",
        ):
            self.assertIn(part, html)
        self.assertNotIn("<img", html)
        self.assertNotIn("javascript", html.replace("<span>bad</span>", ""))

    def test_the_monitor(self):
        self.set(max_tokens=60)
        self.ask("Tell me a story about a dog.")
        self.answer()
        self.browser.click("#tab-monitor")
        self.browser.wait("document.querySelectorAll('.card').length === 6", "the cards")
        self.browser.wait("document.querySelectorAll('#slots tr').length === 9", "the slots")
        self.browser.wait("document.querySelectorAll('.plot').length === 3", "the curves")
        self.server.post("/v1/completions", {"prompt": "Once", "max_tokens": 50})
        self.browser.wait(
            "parseFloat(document.querySelectorAll('.plot b')[2].textContent) > 10", "a hit rate"
        )
        text = self.browser.text("#monitor")
        for part in ("Expert hits", "Requests ended", "idle", "12 layers, 8 of 64 experts"):
            self.assertIn(part, text)
        self.assertNotIn("NaN", text)
        self.assertNotIn("undefined", text)
        painted = self.browser.run(
            "const c = document.querySelector('#heat'); const d = c.getContext('2d')"
            ".getImageData(0, 0, c.width, c.height).data;"
            "return new Set(new Uint32Array(d.buffer)).size"
        )
        self.assertGreater(painted, 2, "residents and the others")
        self.open("#monitor")
        self.browser.wait(
            "!document.querySelector('#monitor').hidden", "the monitor by its address"
        )
        self.assertEqual(self.browser.complaints(), [])

    def test_it_works_on_a_phone(self):
        phone = Browser(width=390, height=760)
        self.addCleanup(phone.close)
        phone.open(f"http://127.0.0.1:{self.server.port}/")
        phone.wait("document.title.includes('Demo')", "the model's name")
        for tab in ("chat", "monitor"):
            phone.click(f"#tab-{tab}")
            wide = phone.run("return document.documentElement.scrollWidth")
            self.assertLessEqual(wide, 390, tab)
        phone.click("#tab-chat")
        self.assertEqual(
            phone.run("return getComputedStyle(document.querySelector('#chats')).display"), "none"
        )
        phone.click("#show-chats")
        self.assertEqual(
            phone.run("return getComputedStyle(document.querySelector('#chats')).display"), "block"
        )


class KeyPageTest(LiveTest):
    OPTIONS = ("--api-key", "secret")

    def test_the_page_asks_for_the_key(self):
        browser = Browser()
        self.addCleanup(browser.close)
        browser.open(f"http://127.0.0.1:{self.server.port}/")
        browser.wait("document.querySelector('#model').textContent.includes('API key')", "the wish")
        browser.click("#show-settings")
        browser.fill("#settings-fields [name=api_key]", "secret")
        browser.wait("document.title.includes('Demo')", "the model's name")


def chat_for_a_picture(browser: Browser, port: int) -> None:
    browser.open(f"http://127.0.0.1:{port}/")
    browser.wait("document.title.includes('Demo')", "the model's name")
    settings = '{"max_tokens": "150", "seed": "2"}'
    browser.run("localStorage.setItem('strata.settings', arguments[0])", settings)
    browser.fill("#input", "Tell me a story about a dog.")
    browser.click("#send")
    browser.wait("document.querySelector('.speed')", "an answer")


def keep_busy(server: Server, until: threading.Event) -> list[threading.Thread]:
    """Three clients that talk to the server, with pauses."""

    def talk(number: int) -> None:
        for turn in range(1000):
            sentences = range(number + turn, number + turn + 1 + 8 * (turn % 3))
            prompt = " ".join(BEGINNINGS[i % 4] for i in sentences)
            body = {"prompt": prompt, "max_tokens": 250, "temperature": 1, "seed": turn}
            server.post("/v1/completions", body)
            if until.wait(0.3 * ((number + turn) % 3)):
                return

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    return threads


def screenshots(folder: Path) -> None:
    need_program()
    need_browser()
    server = Server("--expert-cache", "300", "--temp", "0.7", "--name", "Strata Demo 42M MoE")
    try:
        for name, width, chat_height, monitor_height, dark in (
            ("light", 1100, 640, 1080, False),
            ("dark", 1100, 640, 1080, True),
            ("phone", 390, 760, 760, False),
        ):
            browser = Browser(width, chat_height, dark)
            chat_for_a_picture(browser, server.port)
            browser.screenshot(folder / f"chat-{name}.png")
            browser.resize(width, monitor_height)
            browser.click("#tab-monitor")
            until = threading.Event()
            clients = keep_busy(server, until)
            time.sleep(60)
            browser.screenshot(folder / f"monitor-{name}.png")
            until.set()
            for client in clients:
                client.join()
            browser.close()
    finally:
        server.stop()


if __name__ == "__main__":
    if "--screenshots" in sys.argv:
        screenshots(Path(sys.argv[sys.argv.index("--screenshots") + 1]))
    else:
        unittest.main()
