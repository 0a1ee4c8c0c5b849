import { readFile, readdir, readlink, stat } from 'node:fs/promises';
import { isIPv4 } from 'node:net';

/** A socket of a process that accepts connections or datagrams from other processes. */
export interface ListeningSocket {
  readonly protocol: 'tcp' | 'udp' | 'unix';
  /** An IP address; for unix sockets a path, or a name that begins with `@`. */
  readonly address: string;
  /** The port; for unix sockets the mode of the file in octal digits, and 0 for a name. */
  readonly port: number;
}

const [tcpListen, udpUnconnected, unixListen, unixDatagram] = ['0A', '07', '00010000', '0002'];

/** Decodes an address of /proc/net, whose 32-bit words are in the byte order of the machine. */
function decodeAddress(hex: string): string {
  const words = Array.from({ length: hex.length / 8 }, (_, at) => Buffer.from(hex.slice(at * 8, at * 8 + 8), 'hex').reverse());
  const bytes = Buffer.concat(words);
  const text =
    bytes.length === 4 ? bytes.join('.') : Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(at * 2).toString(16)).join(':');
  return isIPv4(text) ? text : new URL(`http://[${text}]`).hostname.slice(1, -1);
}

const linesOf = async (pid: number, file: string): Promise<string[][]> =>
  (await readFile(`/proc/${pid}/net/${file}`, 'utf8').catch(() => ''))
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/));

async function internetSockets(pid: number, file: 'tcp' | 'tcp6' | 'udp' | 'udp6'): Promise<(readonly [inode: string, ListeningSocket])[]> {
  const protocol = file.startsWith('tcp') ? 'tcp' : 'udp';
  return (await linesOf(pid, file)).flatMap(([, local = '', , state, , , , , , inode = '']) => {
    if (state !== (protocol === 'tcp' ? tcpListen : udpUnconnected)) return [];
    const [address = '', port = ''] = local.split(':');
    return [[inode, { protocol, address: decodeAddress(address), port: Number.parseInt(port, 16) }] as const];
  });
}

async function unixSockets(pid: number): Promise<(readonly [inode: string, ListeningSocket])[]> {
  const found = (await linesOf(pid, 'unix')).filter(
    ([, , , flags, type, , , path]) => path !== undefined && (flags === unixListen || type === unixDatagram),
  );
  return Promise.all(
    found.map(async ([, , , , , , inode = '', path = '']) => {
      const mode = path.startsWith('@') ? 0 : Number(((await stat(path)).mode & 0o777).toString(8));
      return [inode, { protocol: 'unix', address: path.replace(/@+$/, ''), port: mode }] as const;
    }),
  );
}

/** Returns the inodes of the sockets that a process has open. */
async function socketsOf(pid: number): Promise<readonly string[]> {
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const links = await Promise.all(descriptors.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => '')));
  return links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []);
}

/** Returns the sockets on which processes listen, in the order of their addresses. */
export async function listeningSockets(pids: readonly number[]): Promise<readonly ListeningSocket[]> {
  const found = new Map<string, ListeningSocket>();
  for (const pid of pids) {
    const own = new Set(await socketsOf(pid));
    const files = ['tcp', 'tcp6', 'udp', 'udp6'] as const;
    const all = [...(await Promise.all(files.map((file) => internetSockets(pid, file)))), await unixSockets(pid)].flat();
    for (const [inode, socket] of all) if (own.has(inode)) found.set(inode, socket);
  }
  return [...found.values()].sort((a, b) => (a.address === b.address ? a.port - b.port : a.address < b.address ? -1 : 1));
}
