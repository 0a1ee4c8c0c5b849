import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readProcessState } from '@oarlock/cluster/process/process-state';
import { CommandError } from '../common/command-error.ts';
import { progress } from '../common/progress/progress.ts';

const timeoutMs = 60_000;

/** Sends SIGTERM to the process of a data directory and waits until it has ended. Returns at once if none is running. */
export async function down(options: { readonly dataDir: string }): Promise<void> {
  const dataDir = resolve(options.dataDir);
  const state = await readProcessState(dataDir);
  if (state === undefined) {
    console.log(`no cluster is running in ${dataDir}`);
    return;
  }
  progress.step(`waiting until process ${state.pid} has stopped`);
  process.kill(state.pid, 'SIGTERM');
  const deadline = Date.now() + timeoutMs;
  // the process is not a child of this one: it has to be polled
  while ((await readProcessState(dataDir))?.pid === state.pid) {
    if (Date.now() > deadline)
      throw new CommandError(`process ${state.pid} did not stop within ${timeoutMs / 1000} s; see ${dataDir}/oarlock.log`);
    await delay(50);
  }
  console.log(`stopped process ${state.pid}`);
}
