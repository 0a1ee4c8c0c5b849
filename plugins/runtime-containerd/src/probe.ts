import { stat } from 'node:fs/promises';
import { available, type Availability, unavailable } from '@oarlock/kernel/plugin';
import { RuntimeError } from '@oarlock/spi/runtime';
import { CriChannel } from './cri-channel.ts';

/** A machine on which much starts at once may take seconds; who only wants to list plugins waits for less. */
const probeMs = 20_000;

/** Whether something that speaks CRI v1 answers at the socket, within so many milliseconds. */
export async function probeSocket(socket: string, limitMs = probeMs): Promise<Availability> {
  try {
    if (!(await stat(socket)).isSocket()) return unavailable(`${socket} is not a socket`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR')
      return unavailable(`there is no socket at ${socket}: is containerd installed and running?`);
    if (code === 'EACCES') return unavailable(`no permission to look at ${socket}: run as root, or as a member of the socket's group`);
    throw error;
  }
  const channel = new CriChannel({ socket, timeoutMs: limitMs });
  try {
    await channel.cri('Version', {});
    return available;
  } catch (error) {
    if (!(error instanceof RuntimeError)) throw error;
    if (/EACCES/.test(error.message))
      return unavailable(`no permission to connect to ${socket}: run as root, or as a member of the socket's group`);
    if (/ECONNREFUSED/.test(error.message)) return unavailable(`nobody listens at ${socket}: the runtime that made it has ended`);
    if (error.code === 'Unsupported')
      return unavailable(`what listens at ${socket} does not speak CRI v1: its CRI plugin is disabled, or it is older than containerd 1.6`);
    if (error.code === 'DeadlineExceeded') return unavailable(`what listens at ${socket} did not answer within ${limitMs} ms`);
    return unavailable(`what listens at ${socket} does not speak CRI v1: ${error.message}`);
  } finally {
    channel.close();
  }
}
