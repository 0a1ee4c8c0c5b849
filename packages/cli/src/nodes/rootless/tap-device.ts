import { spawn, type ChildProcess } from 'node:child_process';
import { access, constants, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { systemClock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { findProgram } from '@oarlock/process-supervisor/host/host-tools';
import { bootId, startTime } from '@oarlock/process-supervisor/host/process-table';
import { tapGateway, tapName, tapNetwork, uplinkNamespace } from './node-address.ts';
import type { NodeNamespaces } from './node-namespaces.ts';
import { tapScript } from './uplink-rules.ts';

/** Programs that are the other end of a TAP device in a network namespace, and open its connections in the network of the host. The first installed one is used. */
export const tapPrograms = ['slirp4netns', 'pasta'] as const;
export type TapProgram = (typeof tapPrograms)[number];

const namespace = `/run/netns/${uplinkNamespace}`;
const tapAddress = tapNetwork.replace(/\.0\/.*/, '.100');
/** Words that start a program: no port is forwarded, and no address leads to the loopback address of the host, which is the work of the relay. */
const argumentsOf: Readonly<Record<TapProgram, (ready: string) => readonly string[]>> = {
  pasta: (ready) => [
    ...['--foreground', '--quiet', '--pid', ready, '--netns-only', '--netns', namespace, '--ns-ifname', tapName],
    ...['--tcp-ports', 'none', '--udp-ports', 'none', '--tcp-ns', 'none', '--udp-ns', 'none'],
    ...['--no-map-gw', '--ipv4-only', '--address', tapAddress, '--netmask', '24', '--gateway', tapGateway],
    ...['--no-dhcp', '--no-dhcpv6', '--no-ndp', '--no-ra', '--dns', 'none', '--search', 'none'],
  ],
  slirp4netns: () => [
    ...['--ready-fd=3', '--mtu=65520', '--cidr', tapNetwork, '--disable-host-loopback', '--disable-dns'],
    ...['--netns-type=path', namespace, tapName],
  ],
};
/** Gives a program the file to which it writes when it is ready also as descriptor 3. FILE PROGRAM ... */
const withReadyFile = 'file=$1; shift; exec "$@" 3>"$file"';

/** Reads one byte. Writers come and go: the shell opens the pipe for writing, too, so that it does not end with the first of them. FILE */
const readByte = 'exec 3<>"$1"; exec head -c 1 <&3';

const timeoutMs = 10_000;
const maxOutput = 4096;
/** The file by which programs open TAP devices. */
export const tunDevice = '/dev/net/tun';

export interface TapDevice {
  readonly program: TapProgram;
  readonly process: ChildProcess;
}

/** Returns the program for the TAP device of the uplink namespace; undefined if this user has none. */
export async function findTapProgram(): Promise<TapProgram | undefined> {
  const opens = await access(tunDevice, constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  );
  return opens ? tapPrograms.find((name) => findProgram(name) !== undefined) : undefined;
}

/**
 * Starts a program that connects the uplink namespace with the network of the host. It outlives this process when that is killed.
 * @throws Error with what the program or `ip` reported
 */
export async function startTapDevice(
  directory: string,
  { enterMounts, enterUplink }: NodeNamespaces,
  program: TapProgram,
): Promise<TapDevice> {
  const ready = await ReadyFile.create(directory);
  const command = [findProgram(program) ?? program, ...argumentsOf[program](ready.path)];
  const [file = '', ...args] = [...enterMounts, '/bin/sh', '-c', withReadyFile, 'tap', ready.path, ...command];
  // in a session of its own: Ctrl-C in a terminal stops the pods first, which may need their network
  const child = spawn(file, args, { cwd: '/', detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = outputAtEnd(child).then((output) => {
    throw new Error(`${program} ended: ${output}`);
  });
  ended.catch(() => {}); // after the start, the listener of `exit` handles it
  try {
    const born = child.pid === undefined ? '' : startTime(child.pid);
    await writeAtomic(recordOf(directory), JSON.stringify({ boot: bootId(), pid: child.pid ?? 0, born: born ?? '' } satisfies TapRecord));
    await Promise.race([ready.reported, ended]);
    const [enter = '', ...words] = enterUplink;
    const { exitCode, stderr } = await runProgram(systemClock, enter, [...words, '/bin/sh', '-c', tapScript], { timeoutMs });
    if (exitCode !== 0) throw new Error(`the device of ${program} cannot be configured: ${stderr.trim()}`);
    return { program, process: child };
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  } finally {
    await ready.remove();
  }
}

/** A named pipe to which a program writes when it is ready. */
class ReadyFile {
  readonly path: string;
  readonly reported: Promise<void>;
  readonly #reader: ChildProcess;

  private constructor(path: string) {
    this.path = path;
    this.#reader = spawn('/bin/sh', ['-c', readByte, 'ready', path], { stdio: ['ignore', 'pipe', 'ignore'] });
    this.reported = new Promise((resolve, reject) => {
      const late = systemClock.after(timeoutMs, () => reject(new Error(`it was not ready after ${timeoutMs / 1000} s`)));
      this.#reader.once('error', reject);
      this.#reader.stdout?.once('data', () => resolve());
      this.#reader.once('close', () => late.cancel());
    });
    this.reported.catch(() => {}); // the program may fail first
  }

  static async create(directory: string): Promise<ReadyFile> {
    const path = join(directory, 'tap.ready');
    await rm(path, { force: true });
    const { exitCode, stderr } = await runProgram(systemClock, 'mkfifo', ['-m', '600', path], { timeoutMs });
    if (exitCode !== 0) throw new Error(stderr.trim());
    return new ReadyFile(path);
  }

  async remove(): Promise<void> {
    this.#reader.kill('SIGKILL');
    await rm(this.path, { force: true });
  }
}

/** Resolves with the end of what a program wrote when it ends. */
function outputAtEnd(child: ChildProcess): Promise<string> {
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-maxOutput);
    });
  return new Promise((resolve) => {
    child.once('error', ({ message }) => resolve(message));
    child.once('close', (code, signal) => resolve(output.trim() || `exit code ${code ?? signal}`));
  });
}

/** The program of a TAP device, as the data directory keeps it. `born` is the time of its start; empty if it did not start. */
interface TapRecord {
  readonly boot: string;
  readonly pid: number;
  readonly born: string;
}
const recordOf = (directory: string) => join(directory, 'tap.json');

/** Ends the program of an earlier start, which outlived a process that was killed. */
export async function endEarlierTapDevice(directory: string): Promise<void> {
  const text = await readIfExists(recordOf(directory));
  if (text === undefined) return;
  const { boot, pid, born } = JSON.parse(text) as TapRecord;
  if (boot === bootId() && born !== '' && startTime(pid) === born) process.kill(pid, 'SIGKILL');
}
