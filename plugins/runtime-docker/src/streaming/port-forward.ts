import { spawn } from 'node:child_process';
import { connect, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { RuntimeError } from '@oarlock/spi/runtime';

const hosts = ['127.0.0.1', '::1'];

/**
 * Connects to a port in the network namespace `netns`, or in this process's namespace if `netns` is undefined.
 * @throws RuntimeError `Unavailable` if the connection fails
 */
export function portForward(port: number, netns: string | undefined, signal: AbortSignal | undefined): Promise<Duplex> {
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    return Promise.reject(new RuntimeError('InvalidArgument', `not a port: ${port}`));
  return netns === undefined ? dialHost(port, signal) : dialNamespace(port, netns, signal);
}

async function dialHost(port: number, signal: AbortSignal | undefined): Promise<Duplex> {
  let failure: unknown;
  for (const host of hosts) {
    try {
      return await new Promise<Socket>((resolve, reject) => {
        const socket = connect({ host, port, allowHalfOpen: true, ...(signal && { signal }) });
        socket.once('error', reject);
        socket.once('connect', () => {
          socket.off('error', reject);
          resolve(socket);
        });
      });
    } catch (error) {
      signal?.throwIfAborted();
      failure = error;
    }
  }
  throw connectError(port, (failure as Error).message, failure);
}

/**
 * Connects inside a network namespace. A socket belongs to the namespace in which it was created, so a helper process in the namespace creates and
 * connects the socket and passes it to this process. The helper forwards no bytes.
 */
function dialNamespace(port: number, netns: string, signal: AbortSignal | undefined): Promise<Duplex> {
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
    helper.once('error', (error) => end(connectError(port, error.message, error)));
    helper.once('exit', (code) => end(connectError(port, `the helper process exited with ${code}`)));
    helper.once('message', (message, handle) => {
      if (handle instanceof Socket) end(undefined, handle);
      else end(connectError(port, String((message as { error?: unknown }).error)));
    });
  });
}

/** The program of the helper, whose arguments are the port and addresses. It pauses the socket, because this process must receive the first bytes. */
const connector = `
const { connect } = require('node:net');
const [port, ...hosts] = process.argv.slice(1);
const attempt = ([host, ...more]) => {
  const socket = connect({ host, port: Number(port) });
  socket.pause();
  socket.once('error', (error) => (more.length > 0 ? attempt(more) : process.send({ error: error.message })));
  socket.once('connect', () => process.send({}, socket));
};
process.on('message', () => {}); // keeps running until it is killed
attempt(hosts);
`;

function connectError(port: number, reason: string, cause?: unknown): RuntimeError {
  return new RuntimeError('Unavailable', `cannot connect to port ${port} of the pod: ${reason}`, { cause });
}
