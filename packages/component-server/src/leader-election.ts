import { durationMs } from '@oarlock/api/values/duration';
import { errorText } from '@oarlock/primitives/error-text';

/** The flags of leader election, with kube-scheduler's names. */
export const leaderElectionFlags = {
  'leader-elect': { type: 'string', default: 'true' },
  'leader-elect-resource-name': { type: 'string' },
  'leader-elect-resource-namespace': { type: 'string' },
  'leader-elect-lease-duration': { type: 'string', default: '15s' },
  'leader-elect-renew-deadline': { type: 'string', default: '10s' },
  'leader-elect-retry-period': { type: 'string', default: '2s' },
} as const;

export type LeaderElectionFlags = { readonly [Name in keyof typeof leaderElectionFlags]?: string };

export interface LeaderElection {
  readonly lease: { readonly namespace: string; readonly name: string };
  readonly leaseDurationMs: number;
  readonly renewDeadlineMs: number;
  readonly retryPeriodMs: number;
}

/**
 * Returns the leader election that the flags describe, or undefined if they turn it off. `defaults` name the Lease if the flags do not.
 * @throws Error with the flag and its value if a flag is invalid
 */
export function leaderElectionOf(flags: LeaderElectionFlags, defaults: LeaderElection['lease']): LeaderElection | undefined {
  const text = (name: keyof LeaderElectionFlags, fallback = '') => flags[name] ?? fallback;
  const isEnabled = text('leader-elect', 'true');
  if (isEnabled !== 'true' && isEnabled !== 'false')
    throw new Error(`--leader-elect: must be true or false, not ${JSON.stringify(isEnabled)}`);
  if (isEnabled === 'false') return undefined;
  const duration = (name: keyof LeaderElectionFlags) => {
    const value = flags[name] ?? '';
    try {
      const ms = durationMs(value);
      if (ms > 0) return ms;
    } catch (error) {
      throw new Error(`--${name}: ${errorText(error)}`, { cause: error });
    }
    throw new Error(`--${name}: must be greater than zero, not ${JSON.stringify(value)}`);
  };
  return {
    lease: {
      namespace: text('leader-elect-resource-namespace', defaults.namespace),
      name: text('leader-elect-resource-name', defaults.name),
    },
    leaseDurationMs: duration('leader-elect-lease-duration'),
    renewDeadlineMs: duration('leader-elect-renew-deadline'),
    retryPeriodMs: duration('leader-elect-retry-period'),
  };
}
