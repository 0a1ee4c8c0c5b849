import { Worker } from 'node:worker_threads';
import { loaderFlags, programPath } from '@oarlock/primitives/os/bundled-program';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { Semaphore } from '@oarlock/primitives/concurrency/semaphore';
import { diskError } from '../disk-error.ts';
import { OciError, type OciErrorCode } from '../oci-error.ts';
import type { TreeWork, TreeWorkAnswer, TreeWorkKind, TreeWorkMessage } from './worker-protocol.ts';

const idleMs = 10_000;

interface IdleWorker {
  readonly worker: Worker;
  readonly timer: Timer;
}

/**
 * Threads that extract, copy, measure and remove trees. Threads start when there is work, and end after ten seconds without work.
 *
 * An aborted call terminates its thread; the caller removes what the thread left.
 */
export class TreeWorkers {
  readonly #clock: Clock;
  readonly #slots: Semaphore;
  readonly #idle: IdleWorker[] = [];
  readonly #forever = new AbortController().signal;

  constructor(clock: Clock, size: number) {
    this.#clock = clock;
    this.#slots = new Semaphore(size);
  }

  /** @throws OciError of the work; `NoSpace` if the disk is full; the signal's reason */
  run<K extends TreeWorkKind>(
    kind: K,
    request: TreeWork[K]['request'],
    signal: AbortSignal = this.#forever,
  ): Promise<TreeWork[K]['result']> {
    return this.#slots.run(signal, async () => {
      const worker = this.#take();
      const answer = await this.#ask(worker, { kind, request }, signal);
      this.#release(worker);
      if ('error' in answer) throw toError(answer.error);
      return answer.result as TreeWork[K]['result'];
    });
  }

  /** Ends the idle threads. */
  async close(): Promise<void> {
    await Promise.all(
      this.#idle.splice(0).map(({ worker, timer }) => {
        timer.cancel();
        return worker.terminate();
      }),
    );
  }

  #take(): Worker {
    const idle = this.#idle.pop();
    if (!idle) return this.#start();
    idle.timer.cancel();
    idle.worker.ref();
    return idle.worker;
  }

  #start(): Worker {
    const worker = startWorker();
    // a thread can fail after its answer, when no call listens: without a listener its error would end the process
    return worker.on('error', () => {}).once('exit', () => this.#remove(worker));
  }

  /** Removes a thread from the idle ones. Returns false if it works. */
  #remove(worker: Worker): boolean {
    const at = this.#idle.findIndex((idle) => idle.worker === worker);
    if (at < 0) return false;
    for (const { timer } of this.#idle.splice(at, 1)) timer.cancel();
    return true;
  }

  #release(worker: Worker): void {
    worker.unref();
    const timer = this.#clock.after(idleMs, () => {
      if (this.#remove(worker)) void worker.terminate();
    });
    this.#idle.push({ worker, timer });
  }

  #ask(worker: Worker, message: TreeWorkMessage, signal: AbortSignal): Promise<TreeWorkAnswer> {
    return new Promise((resolve, reject) => {
      const abort = () => void worker.terminate();
      const finish = () => {
        signal.removeEventListener('abort', abort);
        worker.off('message', onMessage).off('error', onError).off('exit', onExit);
      };
      const onMessage = (answer: TreeWorkAnswer) => {
        finish();
        resolve(answer);
      };
      const onError = (error: Error) => {
        finish();
        reject(error);
      };
      const onExit = (code: number) => {
        finish();
        reject(signal.aborted ? (signal.reason as Error) : new Error(`the thread for layers ended with ${code}`));
      };
      signal.addEventListener('abort', abort, { once: true });
      worker.on('message', onMessage).on('error', onError).on('exit', onExit);
      const port: Pick<Worker, 'postMessage'> = worker;
      port.postMessage(message);
    });
  }
}

function startWorker(): Worker {
  const entry = programPath('@oarlock/oci/layers/tree-worker', import.meta.url);
  return new Worker(entry, { execArgv: loaderFlags(entry) });
}

function toError({ message, code, isOciError }: { readonly message: string; readonly code?: string; readonly isOciError: boolean }): Error {
  if (isOciError) return new OciError(code as OciErrorCode, message);
  return diskError(Object.assign(new Error(message), { code }));
}
