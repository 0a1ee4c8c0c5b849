import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';

const ok = 'HTTP/1.1 200 OK\r\n';
const oneByte = 'Content-Length: 1\r\n\r\na';
const switched = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: a\r\n\r\n';
const text =
  (response: string): Answer =>
  (socket) =>
    socket.end(Buffer.from(response, 'latin1'));
/** Sends the texts in separate turns of the event loop, and then resets the connection. */
const thenReset =
  (...responses: readonly string[]): Answer =>
  (socket) => {
    const [first, ...rest] = responses;
    if (first === undefined) socket.resetAndDestroy();
    else socket.write(Buffer.from(first, 'latin1'), () => setImmediate(() => thenReset(...rest)(socket)));
  };

/** Answers the first bytes of a client. */
type Answer = (socket: Socket) => void;

/** What a hostile server can answer to an HTTP/1.1 request. */
const hostileResponses: Readonly<Record<string, Answer>> = {
  nothing: (socket) => socket.end(),
  'a reset': thenReset(),
  'no HTTP': text('\u0000\u0001\u00ff\r\n\r\n'),
  'HTTP/0.9': text('<html>'),
  'HTTP/3': text('HTTP/3.0 200 OK\r\n\r\n'),
  'half a head': text('HTTP/1.1 200 O'),
  'a part of the body': text(`${ok}Content-Length: 100\r\n\r\nabc`),
  'a part of the body and a reset': thenReset(`${ok}Content-Length: 100\r\n\r\nabc`),
  ...Object.fromEntries(
    ['000', '099', '101', '199', '204', '205', '304', '600', '999'].map((code) => [
      `status ${code}`,
      text(`HTTP/1.1 ${code} x\r\n${oneByte}`),
    ]),
  ),
  'a reason with control characters': text(`HTTP/1.1 400 \u00ff\u0001x\r\n${oneByte}`),
  'Latin-1 in headers': text(`${ok}X-A: \u00ff\r\nContent-Type: \u00fe\r\nLocation: http://[::/\u00ff%zz\r\nWarning: \u00ff\r\n${oneByte}`),
  'a redirect to no URL': text(`HTTP/1.1 302 Found\r\nLocation: http://[::\r\n${oneByte}`),
  'a redirect to another protocol': text(`HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n${oneByte}`),
  'a control character in a header': text(`${ok}X-A: a\u0001b\r\n${oneByte}`),
  'names of object properties': text(`${ok}__proto__: a\r\nconstructor: b\r\ntoString: c\r\n${oneByte}`),
  'two lengths': text(`${ok}Content-Length: 1\r\nContent-Length: 2\r\n\r\na`),
  'a length beyond 64 bits': text(`${ok}Content-Length: 99999999999999999999\r\n\r\na`),
  'a negative length': text(`${ok}Content-Length: -1\r\n\r\na`),
  'a chunk without a length': text(`${ok}Transfer-Encoding: chunked\r\n\r\nzz\r\n`),
  'a later chunk without a length': thenReset(`${ok}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n`, 'zz\r\n'),
  'trailers in Latin-1': text(`${ok}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-T: \u00ff\r\n\r\n`),
  'another transfer coding': text(`${ok}Transfer-Encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n`),
  'two responses': text(`${ok}${oneByte}${ok}${oneByte}`),
  'a response and bytes': thenReset(`${ok}${oneByte}`, 'garbage'),
  'a hundred interim responses': text(`${'HTTP/1.1 103 Early Hints\r\nLink: \u00ff\r\n\r\n'.repeat(100)}${ok}${oneByte}`),
  'an upgrade and a reset': thenReset(switched),
  'an upgrade and bytes': thenReset(switched, '\u0080'.repeat(5000)),
  'an upgrade with bytes': thenReset(`${switched}${'\u0080'.repeat(5000)}`),
  'an upgrade and the end': text(switched),
  'a rejection that breaks off': thenReset('HTTP/1.1 403 Forbidden\r\nContent-Length: 100\r\n\r\nabc'),
  'a folded header': text(`${ok}X: a\r\n b\r\n${oneByte}`),
  'a head of 200 KB': text(`${ok}X: ${'a'.repeat(200_000)}\r\n\r\n`),
  'thousands of headers': text(`${ok}${'X: a\r\n'.repeat(5000)}Content-Length: 0\r\n\r\n`),
};

/**
 * Calls a client with the port of each hostile server, at the same time, until all calls have ended, whatever their results are. The test run fails by an
 * error that nothing receives. Returns the number of servers.
 */
export async function callHostileServers(call: (port: number) => Promise<unknown>): Promise<number> {
  const ends: (() => void)[] = [];
  const serve = async (answer: Answer): Promise<number> => {
    const server = createServer((socket) => {
      ends.push(() => socket.destroy());
      socket.on('error', () => socket.destroy());
      socket.once('data', () => answer(socket)).resume();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    ends.push(() => server.close());
    return (server.address() as AddressInfo).port;
  };
  const answers = Object.values(hostileResponses);
  await Promise.allSettled(answers.map(async (answer) => call(await serve(answer))));
  for (const end of ends) end();
  return answers.length;
}
