import type { Clock } from '@oarlock/primitives/clock';
import type { ProcessGroup } from '@oarlock/process-supervisor/containers/process-group';
import { isSame, readExit } from './oci-process.ts';

/** Runs the command of a container and keeps its exit code in a file, also when the supervisor has ended. EXIT COMMAND... */
export const holder = `exit=$1; shift
"$@"
code=$?
printf '%s\\n' "$code" > "$exit"
exit "$code"`;

/** How often a container is looked at whose holder was killed. */
const livenessIntervalMs = 500;

/** Returns the exit code of a container; undefined if its holder was killed before the container ended. */
export async function exitOf(
  group: ProcessGroup,
  identity: { readonly pid: number; readonly started: string | undefined },
  { directory, clock }: { readonly directory: string; readonly clock: Clock },
): Promise<number | undefined> {
  const code = await group.exited;
  if (!isSame(identity)) return readExit(directory)?.exitCode ?? code;
  while (isSame(identity)) await clock.sleep(livenessIntervalMs);
  return undefined;
}
