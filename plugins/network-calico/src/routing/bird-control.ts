import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

const longestAnswer = 64 * 1024;

/**
 * BIRD's control socket, as birdc speaks to it: an answer is lines with codes of four digits, the last one without a dash. The connection lives as long
 * as BIRD does, which is how its end is known.
 */
export class BirdControl {
  readonly #socket: Socket;
  #waiting:
    | { readonly lines: string[]; readonly done: (lines: readonly string[]) => void; readonly failed: (error: Error) => void }
    | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    const lines = createInterface({ input: socket });
    lines.on('error', () => socket.destroy()); // it repeats the socket's: a BIRD that is killed resets its connections
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
      this.#waiting?.failed(new Error('BIRD ended before it answered'));
      this.#waiting = undefined;
    });
  }

  /** @throws the system's error when nobody listens */
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
    await control.#answer(); // it says who it is
    return control;
  }

  /** The lines of the answer. One command at a time. */
  command(text: string): Promise<readonly string[]> {
    this.#socket.write(`${text}\n`);
    return this.#answer();
  }
  close(): void {
    this.#socket.destroy();
  }
  #answer(): Promise<readonly string[]> {
    if (this.#waiting) throw new Error('BIRD is asked one thing at a time');
    return new Promise((done, failed) => {
      this.#waiting = { lines: [], done, failed };
    });
  }
}
