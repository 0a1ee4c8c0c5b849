/** The bytes with which an HTTP/2 server of the gRPC health service responds to its first request: settings, headers, SERVING, status 0. */
function grpcServing(): Buffer {
  const frame = (type: number, flags: number, stream: number, payload: Buffer) => {
    const head = Buffer.alloc(9);
    head.writeUIntBE(payload.length, 0, 3);
    head[3] = type;
    head[4] = flags;
    head.writeUInt32BE(stream, 5);
    return Buffer.concat([head, payload]);
  };
  const text = (word: string) => Buffer.concat([Buffer.from([word.length]), Buffer.from(word)]);
  const headers = Buffer.concat([Buffer.from([0x88, 0x5f]), text('application/grpc')]);
  const trailers = Buffer.concat([Buffer.from([0]), text('grpc-status'), text('0')]);
  return Buffer.concat([
    frame(4, 0, 0, Buffer.alloc(0)),
    frame(4, 1, 0, Buffer.alloc(0)),
    frame(1, 4, 1, headers),
    frame(0, 0, 1, Buffer.from([0, 0, 0, 0, 2, 8, 1])),
    frame(1, 5, 1, trailers),
  ]);
}

/** A busybox script that responds to gRPC health checks on a port. It responds when some 80 bytes of the request have arrived. */
export function grpcServer(port: number): string {
  const octal = [...grpcServing()].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('');
  return `printf '${octal}' > /tmp/answer; exec nc -ll -p ${port} -e sh -c 'head -c 80 > /dev/null; cat /tmp/answer; sleep 1'`;
}
