import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { ip } from '../network-namespace.ts';

const run = promisify(execFile);

/** A network namespace with its own veth pair, which represents a pod or another machine. */
export class NamespacedHost {
  readonly #holder: ChildProcess;
  readonly #servers: ChildProcess[] = [];
  private constructor(holder: ChildProcess) {
    this.#holder = holder;
  }

  /** `address` is the address inside the namespace, `gateway` the address on this side of the veth pair; both without prefix length. */
  static async connect(name: string, address: string, gateway: string): Promise<NamespacedHost> {
    const holder = spawn('unshare', ['--net', 'sh', '-c', 'echo up; exec sleep 600'], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(holder.stdout, 'data');
    ip('link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(holder.pid));
    ip('address', 'add', `${gateway}/32`, 'dev', name);
    ip('link', 'set', name, 'up');
    ip('route', 'add', `${address}/32`, 'dev', name);
    const machine = new NamespacedHost(holder);
    await machine.#inside('ip', 'link', 'set', 'lo', 'up');
    await machine.#inside('ip', 'address', 'add', `${address}/32`, 'dev', 'eth0');
    await machine.#inside('ip', 'link', 'set', 'eth0', 'up');
    await machine.#inside('ip', 'route', 'add', gateway, 'dev', 'eth0');
    await machine.#inside('ip', 'route', 'add', 'default', 'via', gateway);
    return machine;
  }

  /** Runs a server that sends each client the source address of its connection. */
  async serveClientAddress(address: string, port: number): Promise<void> {
    const program = `require('net').createServer((socket) => socket.end(socket.remoteAddress)).listen(${port}, '${address}', () => console.log('up'))`;
    const server = spawn('nsenter', [...this.#enter(), process.execPath, '-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#servers.push(server);
    if (server.stdout !== null) await once(server.stdout, 'data');
  }

  /** Returns the response of a server to a client in this namespace, or the error code. */
  async request(address: string, port: number): Promise<string> {
    const program = `const s = require('net').connect(${port}, '${address}'); let t = ''; s.on('data', (d) => { t += d; }); s.on('end', () => console.log(t)); s.on('error', (e) => console.log(e.code)); setTimeout(() => { console.log('no answer'); process.exit(); }, 2000).unref();`;
    return (await this.#inside(process.execPath, '-e', program)).trim();
  }

  async close(): Promise<void> {
    for (const child of [...this.#servers, this.#holder]) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
  }

  #enter(): string[] {
    return [`--net=/proc/${this.#holder.pid}/ns/net`];
  }
  async #inside(command: string, ...args: string[]): Promise<string> {
    return (await run('nsenter', [...this.#enter(), command, ...args], { timeout: 20_000 })).stdout;
  }
}
