import { fork, type ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { programEntry } from '../hosting/thread/plugin-child.ts';
import { ProcessCalls, type CallHandlers } from './process-calls.ts';
import { storageDescriptor, type FromWorkerMessage, type ToWorkerMessage, type WorkerData } from './worker-protocol.ts';

/** The connections that a worker has not taken from its channel; further ones go to other processes. */
const maxWaitingConnections = 1024;

export interface WorkerProcessOptions {
  readonly data: WorkerData;
  readonly handlers: CallHandlers;
  /** Called with the worker's connection to the storage. */
  onStorage(stream: Duplex): void;
}

/** A process that serves the API with the storage and the port of this process. */
export class WorkerProcess {
  readonly calls: ProcessCalls;
  /** Resolves with the reason when the process has ended. */
  readonly ended: Promise<string>;
  /** Resolves when the process serves requests. Rejects if it ends before. */
  readonly ready: Promise<void>;
  readonly #child: ChildProcess;
  #connections = 0;
  #waiting = 0;
  #isReady = false;
  #failure: string | undefined;

  constructor({ data, handlers, onStorage }: WorkerProcessOptions) {
    const { file, execArgv } = programEntry('@oarlock/cluster/workers/worker-main', '../../workers/worker-main.ts');
    this.#child = fork(file, [], {
      execArgv: [...process.execArgv, ...execArgv],
      serialization: 'advanced',
      // the last one is the connection to the storage
      stdio: ['ignore', 'inherit', 'inherit', 'ipc', 'pipe'],
    });
    this.calls = new ProcessCalls((message) => this.#send(message), handlers);
    this.ended = this.#followEnd();
    this.ready = this.#followReady();
    const stream = this.#child.stdio[storageDescriptor] as Duplex | null | undefined;
    if (stream) onStorage(stream);
    this.#send({ type: 'start', data });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }
  get isReady(): boolean {
    return this.#isReady;
  }
  /** The number of open connections that the process has received. */
  get connections(): number {
    return this.#connections;
  }
  get acceptsConnections(): boolean {
    return this.#isReady && this.#child.connected && this.#waiting < maxWaitingConnections;
  }

  /** Gives a connection to the process. */
  pass(socket: Socket): void {
    this.#connections += 1;
    this.#waiting += 1;
    const message: ToWorkerMessage = { type: 'connection' };
    this.#child.send(message, socket, { keepOpen: false }, (error) => {
      this.#waiting -= 1;
      // the process has ended: its clients connect again
      if (error !== null) socket.destroy();
    });
  }

  /** Requests the process to finish its requests and to end. */
  requestStop(): void {
    this.#isReady = false;
    this.#send({ type: 'stop' });
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }

  #send(message: ToWorkerMessage): void {
    // a process that has ended receives nothing; its calls fail
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  #followReady(): Promise<void> {
    const ready = new Promise<void>((resolve, reject) => {
      this.#child.on('message', (message) => {
        const received = message as FromWorkerMessage;
        if (received.type === 'closed') this.#connections -= 1;
        else if (received.type === 'failed') this.#failure = received.message;
        else if (received.type !== 'ready') this.calls.receive(received);
        else {
          this.#isReady = true;
          resolve();
        }
      });
      void this.ended.then((reason) => reject(new Error(reason)));
    });
    ready.catch(() => undefined); // the callers receive the rejection
    return ready;
  }

  #followEnd(): Promise<string> {
    return new Promise((resolve) => {
      const end = (reason: string) => {
        this.#isReady = false;
        this.calls.end(new Error(reason));
        resolve(reason);
      };
      this.#child.once('error', (error) => {
        if (this.#child.pid === undefined) end(`the process cannot be started: ${error.message}`);
      });
      this.#child.once('exit', (code, signal) => end(this.#failure ?? `the process ended with ${signal ?? `exit code ${code}`}`));
    });
  }
}
