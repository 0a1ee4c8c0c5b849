import type { Socket } from 'node:net';
import type { Clock } from '@oarlock/kernel/clock';
import { RuntimeError, type RuntimeCall, type Streams } from '@oarlock/spi/runtime';
import { collected } from './collected-output.ts';
import type { EngineClient, Hijacked } from './engine-client.ts';
import { hasCode } from './engine-errors.ts';
import type { EventHub } from './event-hub.ts';
import { FrameReader } from './output-frames.ts';

interface ExecState {
  readonly Running: boolean;
  readonly ExitCode: number | null;
  readonly Pid: number;
}

/** Nobody types these: the engine wants some keys that leave a session, and CRI has none. */
const detachKeys = 'ctrl-@,ctrl-_,ctrl-@,ctrl-_,ctrl-@,ctrl-_';
const firstLookMs = 10;
const longestLookMs = 1_000;

/** What a command said, and how it ended. */
export interface ExecResult {
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly exitCode: number;
}

/** Commands beside containers, and joined streams of containers. */
export class Sessions {
  readonly #engine: EngineClient;
  readonly #hub: EventHub;
  readonly #clock: Clock;

  constructor(engine: EngineClient, hub: EventHub, clock: Clock) {
    this.#engine = engine;
    this.#hub = hub;
    this.#clock = clock;
  }

  /** @throws RuntimeError `DeadlineExceeded` */
  async execSync(id: string, command: readonly string[], timeoutSeconds: number, { signal }: RuntimeCall = {}): Promise<ExecResult> {
    const [stdout, stderr] = [collected(), collected()];
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
        command,
        { tty: false, stdout: stdout.stream, stderr: stderr.stream },
        { signal: signal ? AbortSignal.any([signal, deadline.signal]) : deadline.signal },
      );
      return { stdout: stdout.bytes(), stderr: stderr.bytes(), exitCode };
    } finally {
      timer?.cancel();
    }
  }

  async exec(containerId: string, command: readonly string[], streams: Streams, { signal }: RuntimeCall): Promise<number> {
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
      const off = this.#hub.onExecEnd(Id, () => {
        off();
        resolve();
      });
    });
    try {
      const hijacked = await this.#engine.hijack(`/exec/${Id}/start`, { body: { Detach: false, Tty: streams.tty }, signal });
      await this.#carry(hijacked, streams, `/exec/${Id}`, signal);
      return await this.#exitCode(Id, ended);
    } catch (error) {
      await this.#kill(Id);
      throw error;
    } finally {
      this.#hub.onExecEnd(Id, () => {})();
    }
  }

  async attach(containerId: string, streams: Streams, { signal }: RuntimeCall): Promise<void> {
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
    await this.#carry(hijacked, streams, `/containers/${containerId}`, signal);
  }

  /** Resolves when the engine has ended the session and all output was written. */
  async #carry({ socket, head }: Hijacked, streams: Streams, path: string, signal: AbortSignal | undefined): Promise<void> {
    const over = new AbortController();
    const abort = () => socket.destroy(signal?.reason as Error);
    signal?.addEventListener('abort', abort, { once: true });
    if (signal?.aborted) abort();
    if (streams.tty && streams.resize) void this.#resize(path, streams.resize, over.signal);
    const feeding = streams.stdin && feed(streams.stdin, socket);
    try {
      await readOutput(socket, head, streams);
      signal?.throwIfAborted();
    } finally {
      over.abort();
      feeding?.();
      signal?.removeEventListener('abort', abort);
      socket.destroy();
    }
  }

  async #resize(path: string, sizes: NonNullable<Streams['resize']>, over: AbortSignal): Promise<void> {
    for await (const { width, height } of sizes) {
      // there is no terminal before the process has begun
      for (let pause = firstLookMs; !over.aborted; pause = Math.min(pause * 2, longestLookMs)) {
        try {
          await this.#engine.call('POST', `${path}/resize`, { query: { w: width, h: height }, signal: over });
          break;
        } catch (error) {
          if (over.aborted || hasCode(error, 'NotFound', 'Unavailable')) return;
          await this.#clock.sleep(pause, over).catch(() => undefined); // its end ends the wait
        }
      }
      if (over.aborted) return;
    }
  }

  /** The session's end and the word of the exit code come by different ways. */
  async #exitCode(execId: string, ended: Promise<void>): Promise<number> {
    for (let pause = firstLookMs; ; pause = Math.min(pause * 2, longestLookMs)) {
      const { Running, ExitCode } = await this.#engine.call<ExecState>('GET', `/exec/${execId}/json`);
      if (!Running && ExitCode !== null) return ExitCode;
      await Promise.race([ended, this.#clock.sleep(pause)]);
    }
  }

  /** The engine has no call for it. The command leads a session of its own in the container; its children go with it. */
  async #kill(execId: string): Promise<void> {
    const state = await this.#engine.call<ExecState>('GET', `/exec/${execId}/json`).catch(() => undefined); // with its container it is gone as well
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

/** Passes stdin on as fast as it is taken, and its end. Returns how to stop. What ended does not read on: that is no failure of the session. */
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
    let waiting = 0;
    let ended = false;
    const done = () => {
      if (ended && waiting === 0) resolve();
    };
    const write = (to: NodeJS.WritableStream | undefined, bytes: Buffer) => {
      if (!to || bytes.length === 0) return;
      waiting += 1;
      const free = to.write(bytes, () => {
        waiting -= 1;
        if (waiting === 0 && socket.isPaused()) socket.resume();
        done();
      });
      if (!free) socket.pause();
    };
    const take = (chunk: Buffer) => {
      if (!frames) write(stdout, chunk);
      else for (const { stream, payload } of frames.push(chunk)) write(stream === 'stdout' ? stdout : stderr, payload);
    };
    const end = () => {
      ended = true;
      done();
    };
    socket.on('data', take);
    socket.once('end', end);
    socket.once('close', end);
    socket.once('error', (error: NodeJS.ErrnoException) => {
      // it has ended and does not read what we still send
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
