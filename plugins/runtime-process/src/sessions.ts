import { spawn } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import type { Readable } from 'node:stream';
import type { Containers } from './containers.ts';
import { encodeFrame, encodeFrames, FrameReader, type Frame } from './frames.ts';
import { drained } from './output-drain.ts';
import type { Machine, ProcessGroup } from './process-group.ts';
import { Refusal, type SandboxRecord, type SessionRequest } from './protocol.ts';
import type { Onlooker } from './running-container.ts';

export interface SessionServices {
  readonly containers: Containers;
  readonly machine: Machine;
  sandbox(id: string): SandboxRecord;
}

/** An onlooker that lets this much wait for it holds the container back; one that takes nothing for this long is let go. */
const onlookerBytes = 1024 * 1024;
const patienceMs = 30_000;
const heldMs = 500;

/** Serves one session over its connection, to the end of both. `rest` came behind the hello. */
export async function serveSession(socket: Socket, request: SessionRequest, rest: Buffer, services: SessionServices): Promise<void> {
  socket.on('error', () => {}); // its close tells
  try {
    if (request.kind === 'exec') await serveExec(socket, request, rest, services);
    else if (request.kind === 'attach') await serveAttach(socket, request, rest, services);
    else await serveForward(socket, request, rest, services);
  } catch (error) {
    const { code, message } = error instanceof Refusal ? error : { code: 'Internal' as const, message: (error as Error).message };
    socket.end(encodeFrame('end', JSON.stringify({ error: { code, message: message.slice(0, 16_384) } })));
  }
}

async function serveExec(
  socket: Socket,
  { containerId, command, tty, stdin }: SessionRequest & { kind: 'exec' },
  rest: Buffer,
  { containers, machine }: SessionServices,
): Promise<void> {
  socket.pause();
  const group = await containers.exec(containerId, command, { tty, stdin });
  const gone = () => group.kill();
  if (socket.destroyed) gone();
  socket.once('close', gone);
  readFrames(socket, rest, (frame) => take(frame, group, socket));
  void forwardOutput(group.stdout, 'stdout', socket);
  if (group.stderr) void forwardOutput(group.stderr, 'stderr', socket);
  const exitCode = await group.exited;
  await drained([group.stdout, ...(group.stderr ? [group.stderr] : [])], machine.clock, heldMs); // what it left in the background may hold them
  for (const stream of [group.stdin, group.stdout, group.stderr]) stream?.destroy();
  socket.off('close', gone);
  socket.end(encodeFrame('end', JSON.stringify({ exitCode })));
}

/** What a caller sends to a process. */
function take({ kind, payload }: Frame, group: ProcessGroup, socket: Socket): void {
  if (kind === 'stdin' && group.stdin && !group.stdin.destroyed) {
    if (!group.stdin.write(payload)) {
      socket.pause();
      const go = () => {
        group.stdin?.off('drain', go).off('close', go);
        socket.resume();
      };
      group.stdin.once('drain', go).once('close', go);
    }
  } else if (kind === 'stdinEnd') group.stdin?.end();
  else if (kind === 'kill') group.kill();
  else if (kind === 'resize') void group.resize(parseSize(payload)).catch(() => {}); // what ran on the terminal has ended
}

function forwardOutput(source: Readable, kind: 'stdout' | 'stderr', socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    source.on('data', (chunk: Buffer) => {
      let more = true;
      for (const frame of encodeFrames(kind, chunk)) more = socket.write(frame);
      if (more || socket.destroyed) return;
      source.pause();
      const go = () => {
        socket.off('drain', go).off('close', go);
        source.resume();
      };
      socket.once('drain', go).once('close', go);
    });
    if (source.closed) resolve();
    else source.once('close', resolve);
  });
}

async function serveAttach(
  socket: Socket,
  { containerId, stdin, stdout, stderr }: SessionRequest & { kind: 'attach' },
  rest: Buffer,
  { containers, machine }: SessionServices,
): Promise<void> {
  const running = containers.running(containerId);
  const { config } = containers.get(containerId);
  await new Promise<void>((resolve) => {
    const onlooker: Onlooker = {
      write(stream, chunk) {
        if (stream === 'stdout' ? !stdout : !stderr) return true;
        for (const frame of encodeFrames(stream, chunk)) socket.write(frame);
        return socket.writableLength < onlookerBytes;
      },
      ready(then) {
        const timer = machine.clock.after(patienceMs, () => socket.destroy());
        const go = () => {
          timer.cancel();
          socket.off('drain', go).off('close', go);
          then();
        };
        if (socket.destroyed) go();
        else socket.once('drain', go).once('close', go);
      },
      end: () => {
        socket.end(encodeFrame('end', '{}'));
        resolve();
      },
    };
    const leave = running.join(onlooker);
    socket.once('close', () => {
      leave();
      if (stdin && config.stdinOnce) running.group.stdin?.end();
      resolve();
    });
    readFrames(socket, rest, (frame) => {
      if (frame.kind === 'stdinEnd') {
        if (config.stdinOnce) running.group.stdin?.end();
        if (!stdout && !stderr) socket.end(encodeFrame('end', '{}'));
      } else if (frame.kind === 'resize' || (stdin && frame.kind === 'stdin')) take(frame, running.group, socket);
    });
  });
}

/** In the host's network the driver connects by itself; this is for a namespace, which only a process of its own can be in. */
async function serveForward(
  socket: Socket,
  { sandboxId, port }: SessionRequest & { kind: 'forward' },
  rest: Buffer,
  { machine, sandbox }: SessionServices,
): Promise<void> {
  const { netns } = sandbox(sandboxId);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new Refusal('InvalidArgument', `not a port: ${port}`);
  if (netns === undefined || machine.tools.nsenter === undefined) {
    const stream = await dial(['127.0.0.1', '::1'], port);
    pipeFrames(socket, rest, stream, stream);
    return;
  }
  const child = spawn(machine.tools.nsenter, [`--net=${netns}`, '--', process.execPath, '-e', relay, String(port)], {
    detached: true,
    env: {},
    stdio: ['pipe', 'pipe', 'pipe'],
    cwd: '/',
  });
  socket.once('close', () => child.kill('SIGKILL'));
  const said = await new Promise<string>((resolve, reject) => {
    child.once('error', reject);
    child.stderr.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    child.once('close', () => resolve('the relay ended'));
  });
  if (said.trim() !== 'connected')
    throw new Refusal('Unavailable', `cannot connect to port ${port} of sandbox ${sandboxId}: ${said.trim().slice(0, 500)}`);
  pipeFrames(socket, rest, child.stdout, child.stdin);
}

/** Runs inside the namespace. Fixed text; the port is an argument. */
const relay = `
const net = require('node:net');
const port = Number(process.argv[1]);
const attempt = (hosts) => {
  const socket = net.connect({ host: hosts[0], port, allowHalfOpen: true });
  socket.once('error', (error) => { if (hosts.length > 1 && error.code === 'ECONNREFUSED') attempt(hosts.slice(1)); else { process.stderr.write(error.message); process.exitCode = 1; process.stdin.destroy(); } });
  socket.once('connect', () => { process.stderr.write('connected'); process.stdin.pipe(socket); socket.pipe(process.stdout); });
};
attempt(['127.0.0.1', '::1']);
`;

/** Connects to the first that listens. @throws Refusal `Unavailable` */
export async function dial(hosts: readonly string[], port: number, signal?: AbortSignal): Promise<Socket> {
  let failure: Error | undefined;
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
      failure = error as Error;
      signal?.throwIfAborted();
    }
  }
  throw new Refusal('Unavailable', `cannot connect to port ${port}: ${failure?.message ?? 'there is no address'}`, { cause: failure });
}

/** Bytes both ways; the caller's `stdinEnd` ends one, the end of `output` the session. */
function pipeFrames(socket: Socket, rest: Buffer, output: Readable, input: NodeJS.WritableStream & { destroyed?: boolean }): void {
  input.on('error', () => socket.destroy());
  output.on('error', () => socket.destroy());
  socket.write(encodeFrame('stdout')); // connected
  void forwardOutput(output, 'stdout', socket).then(() => socket.end(encodeFrame('end', '{}')));
  socket.once('close', () => {
    output.destroy();
  });
  readFrames(socket, rest, ({ kind, payload }) => {
    if (kind === 'stdin' && !input.write(payload)) {
      socket.pause();
      input.once('drain', () => socket.resume());
    } else if (kind === 'stdinEnd') input.end();
  });
}

function readFrames(socket: Socket, rest: Buffer, each: (frame: Frame) => void): void {
  const reader = new FrameReader();
  const push = (chunk: Buffer) => {
    try {
      for (const frame of reader.push(chunk)) each(frame);
    } catch (error) {
      if (error instanceof RangeError) socket.destroy();
      else throw error;
    }
  };
  if (rest.length > 0) push(rest);
  socket.on('data', push);
  socket.resume();
}

function parseSize(payload: Buffer): { readonly width: number; readonly height: number } {
  try {
    const { width, height } = JSON.parse(payload.toString()) as { width?: unknown; height?: unknown };
    return { width: Number(width), height: Number(height) };
  } catch {
    return { width: Number.NaN, height: Number.NaN }; // refused where it is used
  }
}
