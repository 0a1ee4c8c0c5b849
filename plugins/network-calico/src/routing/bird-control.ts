import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

const longestAnswer = 64 * 1024;

/**
 * A connection to BIRD's control socket, with the protocol of birdc: a reply consists of lines with four-digit codes; only the last line has no dash
 * after the code. The connection stays open while BIRD runs, so its end means that BIRD has ended.
 */
export class BirdControl {
  readonly #socket: Socket;
  #waiting:
    | { readonly lines: string[]; readonly done: (lines: readonly string[]) => void; readonly failed: (error: Error) => void }
    | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    const lines = createInterface({ input: socket });
    lines.on('error', () => socket.destroy()); // readline repeats socket errors: a killed BIRD resets its connections
    lines.on('line', (line) => {
      const waiting = this.#waiting;
      if (!waiting) return;
      waiting.lines.push(line);
      if (waiting.lines.length * 16 > longestAnswer) socket.destroy();
      if (!/^\d{4}(?!-)/.test(line)) return;
      this.#waiting = undefined;
      waiting.done(waiting.lines);
    });
    socket.once('close', () => {
      this.#waiting?.failed(new Error('BIRD exited before it replied'));
      this.#waiting = undefined;
    });
  }

  /** Connects to BIRD. @throws the system's error if BIRD does not listen */
  static async open(path: string, ended: () => void): Promise<BirdControl> {
    const socket = connect(path);
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve();
      });
      socket.once('error', reject);
    });
    socket.on('error', () => socket.destroy()); // `close` follows
    socket.once('close', ended);
    const control = new BirdControl(socket);
    await control.#answer(); // BIRD sends its greeting first
    return control;
  }

  /** Sends one command and returns the lines of the reply. Commands are sent one after the other. */
  command(text: string): Promise<readonly string[]> {
    this.#socket.write(`${text}\n`);
    return this.#answer();
  }
  close(): void {
    this.#socket.destroy();
  }
  #answer(): Promise<readonly string[]> {
    if (this.#waiting) throw new Error('a BIRD command is already in progress');
    return new Promise((done, failed) => {
      this.#waiting = { lines: [], done, failed };
    });
  }
}
