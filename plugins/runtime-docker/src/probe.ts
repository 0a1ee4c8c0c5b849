import { stat } from 'node:fs/promises';
import { systemClock } from '@oarlock/primitives/clock';
import { available, unavailable, type Availability } from '@oarlock/kernel/plugin';
import { EngineClient } from './engine/engine-client.ts';

/** The timeout of the probe in milliseconds. If many processes start at once, the engine may take seconds to answer. */
const probeTimeoutMs = 20_000;

/** Returns whether a Docker engine of a supported version answers on the socket within `timeoutMs`. */
export async function probeSocket(socket: string, timeoutMs = probeTimeoutMs): Promise<Availability> {
  try {
    if (!(await stat(socket)).isSocket()) return unavailable(`${socket} is not a socket`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR')
      return unavailable(`there is no socket at ${socket} (docker is not installed, or does not run)`);
    if (code === 'EACCES') return unavailable(`no permission to access ${socket}: run as root, or as a member of the socket's group`);
    throw error;
  }
  const engine = new EngineClient({ socket, timeoutMs, clock: systemClock });
  try {
    await engine.negotiate();
    return available;
  } catch (error) {
    return unavailable((error as Error).message);
  } finally {
    engine.close();
  }
}
