import type { ConnectionState } from '../api/watch.ts';
import { text } from '../text/en.ts';
import type { HealthState } from './health-state.ts';
import { StatusDot } from './status-dot.tsx';
import { WhyLink } from './why-link.tsx';

const healthOf: Readonly<Record<ConnectionState, HealthState>> = { connecting: 'pending', live: 'ok', reconnecting: 'warning', stopped: 'error' };

/** Shows whether a view is live, and why not. */
export function Connection({ state, reason }: { readonly state: ConnectionState; readonly reason: string }) {
  const hasReason = reason !== '' && (state === 'reconnecting' || state === 'stopped');
  return (
    <span class="connection" role="status">
      <StatusDot health={healthOf[state]} label={hasReason ? `${text.connection[state]}: ${reason}` : text.connection[state]} />
      {hasReason && <> <WhyLink message={reason} /></>}
    </span>
  );
}
