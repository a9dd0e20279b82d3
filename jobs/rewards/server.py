# server.py - an example of a reward server with OpenRLHF's protocol. The reward is the number of digits in the answer, up to ten.
# SPDX-License-Identifier: BSD-3-Clause
#
#   python3 jobs/rewards/server.py 5000 &
#   reward: [{name: http, url: "http://localhost:5000/get_reward", timeout_s: 10, retries: 4, on_error: drop}]
#
# It replies to a POST of {"query": [...], "prompts": [...], "labels": [...]} by {"rewards": [...]}, one for each. extra_logs become
# metrics (reward_http_characters). Trireme sends one answer per request, or up to 32 with `batch: 32`. It sends eight requests at
# once and keeps the connections open. With port 0 the server takes a free port. It prints its port.
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answers = [query[len(prompt):] for query, prompt in zip(asked["query"], asked["prompts"])]
        rewards = [min(sum(c.isdigit() for c in answer), 10) / 10 for answer in answers]
        lengths = [len(answer) for answer in answers]
        body = json.dumps({"rewards": rewards, "extra_logs": {"characters": lengths}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
