import { spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { connectFirst } from '@oarlock/primitives/net/connect-first';
import { forwardErrorText, type DialFailure } from '@oarlock/primitives/net/go-error-text';
import type { Containers } from '../containers/containers.ts';
import { encodeFrame, encodeFrames, FrameReader, type Frame } from '../protocol/session-frames.ts';
import { drainOutputs } from '../containers/output-drain.ts';
import type { ContainerProcess } from '../containers/container-process.ts';
import type { HostServices } from '../containers/process-group.ts';
import { SupervisorError, type SandboxRecord, type SessionRequest } from '../protocol/supervisor-protocol.ts';
import type { OutputListener } from '../containers/running-container.ts';

export interface SessionServices {
  readonly containers: Containers;
  readonly host: HostServices;
  sandbox(id: string): SandboxRecord;
}

/** If a listener has this much unsent output, the container's output is paused. */
const listenerBufferBytes = 1024 * 1024;
/** A listener that accepts nothing for this long is disconnected. */
const listenerTimeoutMs = 30_000;
/** How long outputs of an exec may stay open and silent after the process has exited. */
const outputIdleMs = 500;

/** The request of a session, the bytes that followed it, and the services of the supervisor. */
export interface SessionRequestContext {
  readonly request: SessionRequest;
  readonly rest: Buffer;
  readonly services: SessionServices;
}

/** Serves one session until it or its connection ends. `rest` are bytes that arrived after the hello. */
export async function serveSession(socket: Socket, { request, rest, services }: SessionRequestContext): Promise<void> {
  socket.on('error', () => {}); // handled by 'close'
  try {
    if (request.kind === 'exec') await serveExec(socket, { options: request, rest, sessionServices: services });
    else if (request.kind === 'attach') await serveAttach(socket, { options: request, rest, sessionServices: services });
    else await serveForward(socket, { options: request, rest, sessionServices: services });
  } catch (error) {
    const { code, message } = error instanceof SupervisorError ? error : { code: 'Internal' as const, message: (error as Error).message };
    socket.end(encodeFrame('end', JSON.stringify({ error: { code, message: message.slice(0, 16_384) } })));
  }
}

async function serveExec(
  socket: Socket,
  {
    options: { containerId, command, tty, stdin },
    rest,
    sessionServices: { containers, host },
  }: { readonly options: SessionRequest & { kind: 'exec' }; readonly rest: Buffer; readonly sessionServices: SessionServices },
): Promise<void> {
  socket.pause();
  const group = await containers.exec(containerId, { command, tty, stdin });
  const kill = () => group.kill();
  if (socket.destroyed) kill();
  socket.once('close', kill);
  readFrames(socket, rest, (frame) => handleInput(frame, group, socket));
  void forwardOutput(group.stdout, 'stdout', socket);
  if (group.stderr) void forwardOutput(group.stderr, 'stderr', socket);
  const exitCode = await group.exited;
  await drainOutputs([group.stdout, ...(group.stderr ? [group.stderr] : [])], host.clock, outputIdleMs); // background processes may hold them
  for (const stream of [group.stdin, group.stdout, group.stderr]) stream?.destroy();
  socket.off('close', kill);
  socket.end(encodeFrame('end', JSON.stringify({ exitCode })));
}

/** Handles a frame from the caller of a process. */
function handleInput({ kind, payload }: Frame, group: ContainerProcess, socket: Socket): void {
  if (kind === 'stdin' && group.stdin && !group.stdin.destroyed) {
    if (!group.stdin.write(payload)) {
      socket.pause();
      const resume = () => {
        group.stdin?.off('drain', resume).off('close', resume);
        socket.resume();
      };
      group.stdin.once('drain', resume).once('close', resume);
    }
  } else if (kind === 'stdinEnd') group.stdin?.end();
  else if (kind === 'kill') group.kill();
  else if (kind === 'resize') void group.resize(parseSize(payload)).catch(() => {}); // the process on the terminal has exited
}

function forwardOutput(source: Readable, kind: 'stdout' | 'stderr', socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    source.on('data', (chunk: Buffer) => {
      let more = true;
      for (const frame of encodeFrames(kind, chunk)) more = socket.write(frame);
      if (more || socket.destroyed) return;
      source.pause();
      const resume = () => {
        socket.off('drain', resume).off('close', resume);
        source.resume();
      };
      socket.once('drain', resume).once('close', resume);
    });
    if (source.closed) resolve();
    else source.once('close', resolve);
  });
}

async function serveAttach(
  socket: Socket,
  {
    options: { containerId, stdin, stdout, stderr },
    rest,
    sessionServices: { containers, host },
  }: { readonly options: SessionRequest & { kind: 'attach' }; readonly rest: Buffer; readonly sessionServices: SessionServices },
): Promise<void> {
  const running = containers.running(containerId);
  const { config } = containers.get(containerId);
  await new Promise<void>((resolve) => {
    const listener: OutputListener = {
      write(stream, chunk) {
        if (stream === 'stdout' ? !stdout : !stderr) return true;
        for (const frame of encodeFrames(stream, chunk)) socket.write(frame);
        return socket.writableLength < listenerBufferBytes;
      },
      ready(then) {
        const timer = host.clock.after(listenerTimeoutMs, () => socket.destroy());
        const resume = () => {
          timer.cancel();
          socket.off('drain', resume).off('close', resume);
          then();
        };
        if (socket.destroyed) resume();
        else socket.once('drain', resume).once('close', resume);
      },
      end: () => {
        socket.end(encodeFrame('end', '{}'));
        resolve();
      },
    };
    const leave = running.listen(listener);
    socket.once('close', () => {
      leave();
      if (stdin && config.stdinOnce) running.group.stdin?.end();
      resolve();
    });
    readFrames(socket, rest, (frame) => {
      if (frame.kind === 'stdinEnd') {
        if (config.stdinOnce) running.group.stdin?.end();
        if (!stdout && !stderr) socket.end(encodeFrame('end', '{}'));
      } else if (frame.kind === 'resize' || (stdin && frame.kind === 'stdin')) handleInput(frame, running.group, socket);
    });
  });
}

/** Forwards a port of a network namespace with a relay process in it. In the host's network the driver connects by itself. */
async function serveForward(
  socket: Socket,
  {
    options: { sandboxId, port },
    rest,
    sessionServices: { host, sandbox },
  }: { readonly options: SessionRequest & { kind: 'forward' }; readonly rest: Buffer; readonly sessionServices: SessionServices },
): Promise<void> {
  const { netns } = sandbox(sandboxId);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new SupervisorError('InvalidArgument', `not a port: ${port}`);
  if (netns === undefined || host.tools.nsenter === undefined) {
    const stream = await dial(['127.0.0.1', '::1'], { port, sandboxId });
    pipeFrames(socket, { rest, output: stream, input: stream });
    return;
  }
  const child = spawn(host.tools.nsenter, [`--net=${netns}`, '--', process.execPath, '-e', relay, String(port)], {
    detached: true,
    env: {},
    stdio: ['pipe', 'pipe', 'pipe'],
    cwd: '/',
  });
  socket.once('close', () => child.kill('SIGKILL'));
  const report = await new Promise<string>((resolve, reject) => {
    child.once('error', reject);
    child.stderr.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    child.once('close', () => resolve('the relay ended'));
  });
  if (report.trim() !== 'connected') throw new SupervisorError('Unavailable', forwardErrorText(port, sandboxId, relayFailures(report)));
  pipeFrames(socket, { rest, output: child.stdout, input: child.stdin });
}

/** Returns the failed attempts that the relay reports as JSON; its output as one failure if it has ended otherwise. */
function relayFailures(report: string): readonly DialFailure[] {
  try {
    return JSON.parse(report) as readonly DialFailure[];
  } catch {
    return [{ message: report.trim().slice(0, 500) }];
  }
}

/** The program of the relay. It is constant; the port is an argument. Its output ends with the connection, which `process.stdout` never does. */
const relay = `
const net = require('node:net');
const port = Number(process.argv[1]);
const failures = [];
const attempt = (hosts) => {
  const socket = net.connect({ host: hosts[0], port, allowHalfOpen: true });
  socket.once('error', ({ code, syscall, address, port, message }) => { failures.push({ code, syscall, address, port, message }); if (hosts.length > 1) attempt(hosts.slice(1)); else { process.stderr.write(JSON.stringify(failures)); process.exitCode = 1; process.stdin.destroy(); } });
  socket.once('connect', () => { process.stderr.write('connected'); process.stdin.pipe(socket); socket.pipe(new net.Socket({ fd: 1, readable: false, writable: true })); });
};
attempt(['127.0.0.1', '::1']);
`;

/** Connects to the first of `hosts` that accepts a connection to the port. @throws SupervisorError `Unavailable` if none of them does */
export async function dial(
  hosts: readonly string[],
  { port, sandboxId, signal }: { readonly port: number; readonly sandboxId: string; readonly signal?: AbortSignal | undefined },
): Promise<Socket> {
  try {
    return await connectFirst(hosts, port, signal);
  } catch (error) {
    signal?.throwIfAborted();
    const failures = (error as AggregateError).errors as readonly NodeJS.ErrnoException[];
    throw new SupervisorError('Unavailable', forwardErrorText(port, sandboxId, failures), { cause: failures.at(-1) });
  }
}

/**
 * Copies bytes in both directions between the frames of a session's socket and a process or connection. The frame `stdinEnd` ends `input`;
 * the end of `output` ends the session.
 */
function pipeFrames(
  socket: Socket,
  {
    rest,
    output,
    input,
  }: { readonly rest: Buffer; readonly output: Readable; readonly input: NodeJS.WritableStream & { destroyed?: boolean } },
): void {
  input.on('error', () => socket.destroy());
  output.on('error', () => socket.destroy());
  socket.write(encodeFrame('stdout')); // an empty frame: the port is connected
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

function readFrames(socket: Socket, rest: Buffer, handle: (frame: Frame) => void): void {
  const reader = new FrameReader();
  const push = (chunk: Buffer) => {
    try {
      for (const frame of reader.push(chunk)) handle(frame);
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
    return { width: Number.NaN, height: Number.NaN }; // `resize` ignores it
  }
}
