import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** A network namespace that forwards packets, as a node does. */
export class Node {
  /** The command prefix that runs a program in the namespace; empty for this process's own. */
  readonly enter: readonly string[];
  readonly #process: ChildProcess | undefined;

  private constructor(child?: ChildProcess) {
    this.#process = child;
    this.enter = child === undefined ? [] : ['nsenter', `--net=/proc/${child.pid}/ns/net`];
    this.ip('link', 'set', 'lo', 'up');
    this.run('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
  }

  static here(): Node {
    return new Node();
  }
  /** Creates a node in a new namespace. */
  static async there(): Promise<Node> {
    const child = spawn('unshare', ['--net', 'cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
    // the echoed line proves that the namespace exists
    child.stdin.write('up\n');
    await once(child.stdout, 'data');
    return new Node(child);
  }

  get pid(): number {
    return this.#process?.pid ?? process.pid;
  }
  run(...command: string[]): void {
    const [file = '', ...args] = [...this.enter, ...command];
    execFileSync(file, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  }
  ip(...args: string[]): void {
    this.run('ip', ...args);
  }
  async close(): Promise<void> {
    if (this.#process === undefined) return;
    this.#process.kill('SIGKILL');
    if (this.#process.exitCode === null && this.#process.signalCode === null) await once(this.#process, 'exit');
  }
}
