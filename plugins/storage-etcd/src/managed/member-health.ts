import type { StorageMember } from '@oarlock/spi/storage-server';

/** Returns true if a member votes, responds and has no alarm about its data. */
export const isHealthy = ({ role, alarms }: StorageMember): boolean =>
  (role === 'Leader' || role === 'Follower') && !alarms.includes('CORRUPT');

/** Returns why no member may be restarted now, or undefined: while another member does not respond, the cluster would lose its quorum more easily. */
export function restartObstacle(members: readonly StorageMember[]): string | undefined {
  const unhealthy = members.find((member) => !isHealthy(member));
  if (unhealthy !== undefined) return `${unhealthy.name || unhealthy.id} is not healthy`;
  return members.some(({ role }) => role === 'Leader') ? undefined : 'no member leads';
}
