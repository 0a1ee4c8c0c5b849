import { stat } from 'node:fs/promises';
import { systemClock } from '@oarlock/kernel/clock';
import { available, unavailable, type Availability } from '@oarlock/kernel/plugin';
import { EngineClient } from './engine-client.ts';

/** A machine on which much starts at once may take seconds; who only wants to list plugins waits for less. */
const probeMs = 20_000;

/** Whether a docker engine that we understand answers at the socket, within so many milliseconds. */
export async function probeSocket(socket: string, limitMs = probeMs): Promise<Availability> {
  try {
    if (!(await stat(socket)).isSocket()) return unavailable(`${socket} is not a socket`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return unavailable(`there is no socket at ${socket}: is docker installed and running?`);
    if (code === 'EACCES') return unavailable(`no permission to look at ${socket}: run as root, or as a member of the socket's group`);
    throw error;
  }
  const engine = new EngineClient({ socket, timeoutMs: limitMs, clock: systemClock });
  try {
    await engine.negotiate();
    return available;
  } catch (error) {
    return unavailable((error as Error).message);
  } finally {
    engine.close();
  }
}
