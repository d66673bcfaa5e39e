"""Calls of KEDA's external scaler by grpcio, one JSON line for each: keda_client.py ADDRESS [CA CERTIFICATE KEY].

Each line of the input is {"method", "metadata", "metric"}; a stream's answers are printed as they come, its end too.
"""

import json
import struct
import sys
import threading

import grpc

STREAMS = ("StreamIsActive", "StreamMetricSpec")


def varint(value):
    made = b""
    while value > 127:
        made += bytes([value & 127 | 128])
        value >>= 7
    return made + bytes([value])


def text(number, value):
    value = value if isinstance(value, bytes) else value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def object_of(call):
    made = text(1, "chat") + text(2, "default")
    for key, value in call.get("metadata", {}).items():
        made += text(3, text(1, key) + text(2, value))
    return made


def request(call):
    if call["method"] != "GetMetrics":
        return object_of(call)
    return text(1, object_of(call)) + text(2, call["metric"])


def fields(message):
    at, found = 0, {}

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    while at < len(message):
        tag = number()
        if tag & 7 == 0:
            found[tag >> 3] = number()
        elif tag & 7 == 1:
            found[tag >> 3] = struct.unpack("<d", message[at:at + 8])[0]
            at += 8
        else:
            size = number()
            found[tag >> 3] = message[at:at + size]
            at += size
    return found


def answer(method, message):
    if "IsActive" in method:
        return {"active": bool(fields(message).get(1, 0))}
    metric = fields(fields(message)[1])
    return {"name": metric[1].decode(), "integer": metric[2], "real": metric[3]}


LINES = threading.Lock()


def say(line):
    with LINES:
        print(json.dumps(line), flush=True)


def call_one(channel, call):
    path = "/externalscaler.ExternalScaler/" + call["method"]
    try:
        if call["method"] in STREAMS:
            for message in channel.unary_stream(path)(request(call), timeout=120):
                say({"method": call["method"], **answer(call["method"], message)})
            say({"method": call["method"], "status": "OK"})
        else:
            message = channel.unary_unary(path)(request(call), timeout=20)
            say({"method": call["method"], "status": "OK", **answer(call["method"], message)})
    except grpc.RpcError as error:
        say({"method": call["method"], "status": error.code().name, "text": error.details()})


def main():
    address, *files = sys.argv[1:]
    if files:
        ca, certificate, key = (open(file, "rb").read() for file in files)
        channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, certificate))
    else:
        channel = grpc.insecure_channel(address)
    for line in sys.stdin:
        call = json.loads(line)
        if call["method"] in STREAMS:
            threading.Thread(target=call_one, args=(channel, call), daemon=True).start()
        else:
            call_one(channel, call)


main()
