import { spawn } from 'node:child_process';
import { connect, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { RuntimeError } from '@oarlock/spi/runtime';

const hosts = ['127.0.0.1', '::1'];

/** A connection to a port of this process's own network, or of the namespace at `netns`. @throws RuntimeError `Unavailable` */
export function portForward(port: number, netns: string | undefined, signal: AbortSignal | undefined): Promise<Duplex> {
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    return Promise.reject(new RuntimeError('InvalidArgument', `not a port: ${port}`));
  return netns === undefined ? dialHere(port, signal) : dialThere(port, netns, signal);
}

async function dialHere(port: number, signal: AbortSignal | undefined): Promise<Duplex> {
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
  throw refused(port, (failure as Error).message, failure);
}

/**
 * A socket stays in the namespace that it was made in, whoever has it: a helper connects it there and hands it over, so that not a byte takes a
 * way around.
 */
function dialThere(port: number, netns: string, signal: AbortSignal | undefined): Promise<Duplex> {
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
    helper.once('error', (error) => end(refused(port, error.message, error)));
    helper.once('exit', (code) => end(refused(port, `the helper ended with ${code}`)));
    helper.once('message', (message, handle) => {
      if (handle instanceof Socket) end(undefined, handle);
      else end(refused(port, String((message as { error?: unknown }).error)));
    });
  });
}

/** Runs inside the namespace. Fixed text; the port and the addresses are arguments. Paused: what the server says first is not ours to read. */
const connector = `
const { connect } = require('node:net');
const [port, ...hosts] = process.argv.slice(1);
const attempt = ([host, ...more]) => {
  const socket = connect({ host, port: Number(port) });
  socket.pause();
  socket.once('error', (error) => (more.length > 0 ? attempt(more) : process.send({ error: error.message })));
  socket.once('connect', () => process.send({}, socket));
};
process.on('message', () => {}); // stays until it is told to go
attempt(hosts);
`;

function refused(port: number, why: string, cause?: unknown): RuntimeError {
  return new RuntimeError('Unavailable', `cannot connect to port ${port} of the pod: ${why}`, { cause });
}
