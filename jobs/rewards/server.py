# server.py - an example of a reward by a server, as OpenRLHF's remote reward models: the digits in the answer, at most ten.
# SPDX-License-Identifier: BSD-3-Clause
#
#   python3 jobs/rewards/server.py 5000 &
#   reward: [{name: http, url: "http://localhost:5000/get_reward", timeout_s: 10, retries: 4, on_error: drop}]
#
# A POST of {"query": [...], "prompts": [...], "labels": [...]} is answered by {"rewards": [...]}, as many; extra_logs become
# metrics (reward_http_characters). Trireme asks for one answer a request, with `batch: 32` for up to so many, eight requests at
# once, over connections that stay open. With port 0 it takes a free one; it says which.
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
