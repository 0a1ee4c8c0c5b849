import { stat } from 'node:fs/promises';
import { available, type Availability, unavailable } from '@oarlock/kernel/plugin';
import { RuntimeError } from '@oarlock/spi/runtime';
import { CriClient } from './cri/cri-client.ts';

/** The timeout of the probe in milliseconds. If many processes start at once, the runtime may take seconds to answer. */
const probeTimeoutMs = 20_000;

/** Returns whether a server of CRI v1 answers on the socket within `timeoutMs`. */
export async function probeSocket(socket: string, timeoutMs = probeTimeoutMs): Promise<Availability> {
  try {
    if (!(await stat(socket)).isSocket()) return unavailable(`${socket} is not a socket`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR')
      return unavailable(`there is no socket at ${socket} (containerd is not installed, or does not run)`);
    if (code === 'EACCES') return unavailable(`no permission to access ${socket}: run as root, or as a member of the socket's group`);
    throw error;
  }
  const client = new CriClient({ socket, timeoutMs });
  try {
    await client.cri('Version', {});
    return available;
  } catch (error) {
    if (!(error instanceof RuntimeError)) throw error;
    if (/EACCES/.test(error.message))
      return unavailable(`no permission to connect to ${socket}: run as root, or as a member of the socket's group`);
    if (/ECONNREFUSED/.test(error.message)) return unavailable(`no process listens on ${socket}: the runtime that created it has ended`);
    if (error.code === 'Unsupported')
      return unavailable(`the server at ${socket} does not serve CRI v1: its CRI plugin is disabled, or it is older than containerd 1.6`);
    if (error.code === 'DeadlineExceeded') return unavailable(`the server at ${socket} did not answer within ${timeoutMs} ms`);
    return unavailable(`the server at ${socket} does not serve CRI v1: ${error.message}`);
  } finally {
    client.close();
  }
}
