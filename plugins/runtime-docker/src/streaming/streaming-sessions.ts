import type { Socket } from 'node:net';
import type { Clock } from '@oarlock/primitives/clock';
import { RuntimeError, type RuntimeCallOptions, type Streams } from '@oarlock/spi/runtime';
import { collectedOutput } from '@oarlock/primitives/collected-output';
import type { EngineClient, HijackedConnection } from '../engine/engine-client.ts';
import { hasCode } from '../engine/engine-errors.ts';
import type { EventBroadcaster } from '../events/event-broadcaster.ts';
import { FrameReader } from '../logs/output-frames.ts';

interface ExecState {
  readonly Running: boolean;
  readonly ExitCode: number | null;
  readonly Pid: number;
}

/** The key sequence that detaches from a session. The engine requires one although CRI has none. This sequence is unlikely to be typed by accident. */
const detachKeys = 'ctrl-@,ctrl-_,ctrl-@,ctrl-_,ctrl-@,ctrl-_';
const initialPollDelayMs = 10;
const maxPollDelayMs = 1_000;

/** The output of a command, and the exit code. */
export interface ExecResult {
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly exitCode: number;
}

/** The command and its timeout in seconds. */
export interface ExecSyncRequest {
  readonly command: readonly string[];
  readonly timeoutSeconds: number;
}

/** The command and the streams it is connected to. */
export interface ExecRequest {
  readonly command: readonly string[];
  readonly streams: Streams;
}

/** Runs commands in containers (exec) and attaches to the streams of containers. */
export class StreamingSessions {
  readonly #engine: EngineClient;
  readonly #events: EventBroadcaster;
  readonly #clock: Clock;

  constructor(engine: EngineClient, events: EventBroadcaster, clock: Clock) {
    this.#engine = engine;
    this.#events = events;
    this.#clock = clock;
  }

  /** Runs a command and returns its output and exit code. @throws RuntimeError `DeadlineExceeded` if the command exceeds the timeout */
  async execSync(id: string, { command, timeoutSeconds }: ExecSyncRequest, { signal }: RuntimeCallOptions = {}): Promise<ExecResult> {
    const [stdout, stderr] = [collectedOutput(), collectedOutput()];
    const deadline = new AbortController();
    const timer =
      timeoutSeconds > 0
        ? this.#clock.after(timeoutSeconds * 1000, () =>
            deadline.abort(new RuntimeError('DeadlineExceeded', `command timed out after ${timeoutSeconds} s`)),
          )
        : undefined;
    try {
      const exitCode = await this.exec(
        id,
        { command, streams: { tty: false, stdout: stdout.stream, stderr: stderr.stream } },
        { signal: signal ? AbortSignal.any([signal, deadline.signal]) : deadline.signal },
      );
      return { stdout: stdout.bytes(), stderr: stderr.bytes(), exitCode };
    } finally {
      timer?.cancel();
    }
  }

  async exec(containerId: string, { command, streams }: ExecRequest, { signal }: RuntimeCallOptions): Promise<number> {
    const { Id } = await this.#engine.call<{ readonly Id: string }>('POST', `/containers/${containerId}/exec`, {
      body: {
        Cmd: command,
        Tty: streams.tty,
        AttachStdin: streams.stdin !== undefined,
        AttachStdout: true,
        AttachStderr: true,
        DetachKeys: detachKeys,
      },
      signal,
    });
    const ended = new Promise<void>((resolve) => {
      const off = this.#events.onExecEnd(Id, () => {
        off();
        resolve();
      });
    });
    try {
      const hijacked = await this.#engine.hijack(`/exec/${Id}/start`, { body: { Detach: false, Tty: streams.tty }, signal });
      await this.#runSession(hijacked, { streams, path: `/exec/${Id}`, signal });
      return await this.#exitCode(Id, ended);
    } catch (error) {
      await this.#kill(Id);
      throw error;
    } finally {
      this.#events.onExecEnd(Id, () => {})();
    }
  }

  async attach(containerId: string, streams: Streams, { signal }: RuntimeCallOptions): Promise<void> {
    const hijacked = await this.#engine.hijack(`/containers/${containerId}/attach`, {
      query: {
        stream: true,
        stdin: streams.stdin !== undefined,
        stdout: streams.stdout !== undefined,
        stderr: streams.stderr !== undefined,
        detachKeys,
      },
      signal,
    });
    await this.#runSession(hijacked, { streams, path: `/containers/${containerId}`, signal });
  }

  /** Copies the streams of a session. Resolves when the engine has ended the session and all output was written. */
  async #runSession(
    { socket, head }: HijackedConnection,
    { streams, path, signal }: { readonly streams: Streams; readonly path: string; readonly signal: AbortSignal | undefined },
  ): Promise<void> {
    const over = new AbortController();
    const abort = () => socket.destroy(signal?.reason as Error);
    signal?.addEventListener('abort', abort, { once: true });
    if (signal?.aborted) abort();
    if (streams.tty && streams.resize) void this.#resize(path, streams.resize, over.signal);
    const stopStdin = streams.stdin && feed(streams.stdin, socket);
    try {
      await readOutput(socket, head, streams);
      signal?.throwIfAborted();
    } finally {
      over.abort();
      stopStdin?.();
      signal?.removeEventListener('abort', abort);
      socket.destroy();
    }
  }

  async #resize(path: string, sizes: NonNullable<Streams['resize']>, over: AbortSignal): Promise<void> {
    for await (const { width, height } of sizes) {
      // the terminal exists only after the process has started
      for (let pause = initialPollDelayMs; !over.aborted; pause = Math.min(pause * 2, maxPollDelayMs)) {
        try {
          await this.#engine.call('POST', `${path}/resize`, { query: { w: width, h: height }, signal: over });
          break;
        } catch (error) {
          if (over.aborted || hasCode(error, 'NotFound', 'Unavailable')) return;
          await this.#clock.sleep(pause, over).catch(() => undefined); // the session's end ends the wait
        }
      }
      if (over.aborted) return;
    }
  }

  /** Returns the exit code of an exec session. Polls, because the engine may report the exit code after the session has ended. */
  async #exitCode(execId: string, ended: Promise<void>): Promise<number> {
    for (let pause = initialPollDelayMs; ; pause = Math.min(pause * 2, maxPollDelayMs)) {
      const { Running, ExitCode } = await this.#engine.call<ExecState>('GET', `/exec/${execId}/json`);
      if (!Running && ExitCode !== null) return ExitCode;
      await Promise.race([ended, this.#clock.sleep(pause)]);
    }
  }

  /** Kills the process group of an exec session, which the engine has no call for. The process is a session leader in the container. */
  async #kill(execId: string): Promise<void> {
    const state = await this.#engine.call<ExecState>('GET', `/exec/${execId}/json`).catch(() => undefined); // fails if the container was removed
    if (!state?.Running || state.Pid <= 1) return;
    for (const pid of [-state.Pid, state.Pid]) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  }
}

/** Copies stdin with back-pressure, and then its end. Returns a function that stops the copy. Ignores a closed socket: the process has then exited. */
function feed(stdin: NonNullable<Streams['stdin']>, socket: Socket): () => void {
  const data = (chunk: Buffer | string) => {
    if (!socket.writable) return;
    if (!socket.write(chunk)) stdin.pause();
  };
  const drain = () => stdin.resume();
  const end = () => {
    if (socket.writable) socket.end();
  };
  stdin.on('data', data);
  stdin.once('end', end);
  stdin.once('error', end);
  socket.on('drain', drain);
  return () => {
    stdin.off('data', data);
    stdin.off('end', end);
    stdin.pause();
    socket.off('drain', drain);
  };
}

function readOutput(socket: Socket, head: Buffer, { stdout, stderr, tty }: Streams): Promise<void> {
  const frames = tty ? undefined : new FrameReader(false);
  return new Promise((resolve, reject) => {
    let pendingWrites = 0;
    let ended = false;
    const resolveIfDone = () => {
      if (ended && pendingWrites === 0) resolve();
    };
    const write = (to: NodeJS.WritableStream | undefined, bytes: Buffer) => {
      if (!to || bytes.length === 0) return;
      pendingWrites += 1;
      const free = to.write(bytes, () => {
        pendingWrites -= 1;
        if (pendingWrites === 0 && socket.isPaused()) socket.resume();
        resolveIfDone();
      });
      if (!free) socket.pause();
    };
    const take = (chunk: Buffer) => {
      if (!frames) write(stdout, chunk);
      else for (const { stream, payload } of frames.push(chunk)) write(stream === 'stdout' ? stdout : stderr, payload);
    };
    const end = () => {
      ended = true;
      resolveIfDone();
    };
    socket.on('data', take);
    socket.once('end', end);
    socket.once('close', end);
    socket.once('error', (error: NodeJS.ErrnoException) => {
      // the process has exited and does not read further input
      if (error.code === 'EPIPE' || error.code === 'ECONNRESET') end();
      else
        reject(
          error instanceof RuntimeError ? error : new RuntimeError('Unavailable', `the session broke: ${error.message}`, { cause: error }),
        );
    });
    if (head.length > 0) take(head);
    socket.resume();
  });
}
