import { usesSharedStorage } from './create-plan.ts';
import type { Plan } from './plan.ts';

const roles = ['controllers', 'scheduler'] as const;

/** Returns a warning for each role whose leader election the cluster file turns off although other servers may share the storage. */
export function leaderElectionWarnings({ file, plugins, roles: running }: Pick<Plan, 'file' | 'plugins' | 'roles'>): readonly string[] {
  if (!usesSharedStorage(plugins)) return [];
  return roles
    .filter((role) => running.includes(role) && isElectionOff(file.spec.settings[role]))
    .map(
      (role) =>
        `settings.${role}.leaderElect is false, and the storage can be shared: a second server would run the same ${role === 'controllers' ? 'controllers' : 'scheduler'} concurrently`,
    );
}

/** Returns true if the settings of a role turn leader election off, also those of a KubeSchedulerConfiguration. */
function isElectionOff({ leaderElect, leaderElection }: Readonly<Record<string, unknown>>): boolean {
  const own = (leaderElection as { readonly leaderElect?: unknown } | undefined)?.leaderElect;
  return own === undefined ? leaderElect === false : own === false;
}
