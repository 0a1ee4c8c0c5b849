import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { connectFirst } from '@oarlock/primitives/net/connect-first';
import { forwardErrorText, type DialFailure } from '@oarlock/primitives/net/go-error-text';
import { RuntimeError } from '@oarlock/spi/runtime';

const hosts = ['127.0.0.1', '::1'];

export interface ForwardedPort {
  readonly port: number;
  readonly sandboxId: string;
  readonly netns: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/**
 * Connects to a port in the network namespace `netns`, or in this process's namespace if `netns` is undefined.
 * @throws RuntimeError `Unavailable` if the connection fails
 */
export function portForward({ port, sandboxId, netns, signal }: ForwardedPort): Promise<Duplex> {
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    return Promise.reject(new RuntimeError('InvalidArgument', `not a port: ${port}`));
  const forwarded = { port, sandboxId, netns, signal };
  return netns === undefined ? dialHost(forwarded) : dialNamespace(forwarded, netns);
}

async function dialHost(forwarded: ForwardedPort): Promise<Duplex> {
  const { port, signal } = forwarded;
  try {
    return await connectFirst(hosts, port, signal);
  } catch (error) {
    signal?.throwIfAborted();
    throw connectError(forwarded, (error as AggregateError).errors as readonly NodeJS.ErrnoException[]);
  }
}

/**
 * Connects inside a network namespace. A socket belongs to the namespace in which it was created, so a helper process in the namespace creates and
 * connects the socket and passes it to this process. The helper forwards no bytes.
 */
function dialNamespace(forwarded: ForwardedPort, netns: string): Promise<Duplex> {
  const { port, signal } = forwarded;
  return new Promise((resolve, reject) => {
    const helper = spawn('nsenter', [`--net=${netns}`, '--', process.execPath, '-e', connector, String(port), ...hosts], {
      env: {},
      cwd: '/',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    const end = (error?: unknown, socket?: Socket) => {
      signal?.removeEventListener('abort', abort);
      helper.removeAllListeners('exit');
      helper.kill('SIGKILL');
      if (!socket) {
        reject(error as Error);
        return;
      }
      socket.allowHalfOpen = true;
      if (signal) signal.addEventListener('abort', () => socket.destroy(signal.reason as Error), { once: true });
      resolve(socket);
    };
    const abort = () => end(signal?.reason);
    signal?.addEventListener('abort', abort, { once: true });
    helper.once('error', (error) => end(connectError(forwarded, [error])));
    helper.once('exit', (code) => end(connectError(forwarded, [{ message: `the helper process exited with ${code}` }])));
    helper.once('message', (message, handle) => {
      if (handle instanceof Socket) end(undefined, handle);
      else end(connectError(forwarded, (message as { failures: readonly DialFailure[] }).failures));
    });
  });
}

/** The program of the helper, whose arguments are the port and addresses. It pauses the socket, because this process must receive the first bytes. */
const connector = `
const { connect } = require('node:net');
const [port, ...hosts] = process.argv.slice(1);
const failures = [];
const attempt = ([host, ...more]) => {
  const socket = connect({ host, port: Number(port) });
  socket.pause();
  socket.once('error', ({ code, syscall, address, port, message }) => {
    failures.push({ code, syscall, address, port, message });
    if (more.length > 0) attempt(more);
    else process.send({ failures });
  });
  socket.once('connect', () => process.send({}, socket));
};
process.on('message', () => {}); // keeps running until it is killed
attempt(hosts);
`;

function connectError({ port, sandboxId }: ForwardedPort, failures: readonly DialFailure[]): RuntimeError {
  return new RuntimeError('Unavailable', forwardErrorText(port, sandboxId, failures), { cause: failures.at(-1) });
}
