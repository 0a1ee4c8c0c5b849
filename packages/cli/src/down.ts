import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readState } from '@oarlock/cluster/process-state';
import { CommandError } from './exit.ts';

const patienceMs = 60_000;

/** Asks the process to stop and waits until it has. Done when nothing runs. */
export async function down(options: { readonly dataDir: string }): Promise<void> {
  const dataDir = resolve(options.dataDir);
  const state = await readState(dataDir);
  if (state === undefined) {
    console.log(`nothing runs in ${dataDir}`);
    return;
  }
  process.kill(state.pid, 'SIGTERM');
  const deadline = Date.now() + patienceMs;
  // the end of a process that is not our child is not announced to us
  while ((await readState(dataDir))?.pid === state.pid) {
    if (Date.now() > deadline)
      throw new CommandError(`process ${state.pid} has not stopped within ${patienceMs / 1000} s; see ${dataDir}/oarlock.log`);
    await delay(50);
  }
  console.log(`stopped process ${state.pid}`);
}
