import type { Row } from '../../api/table-store.ts';
import type { HealthState } from '../../components/health-state.ts';
import { StatusDot } from '../../components/status-dot.tsx';

const healthy = new Set(['Running', 'Completed', 'Succeeded', 'Active', 'Bound', 'Ready', 'Complete', 'Normal', 'True']);
const pending = new Set(['Pending', 'ContainerCreating', 'PodInitializing', 'Terminating', 'Released', 'Available', 'Suspended']);

/** Returns the health that a status text of a server's table shows. */
export function healthOfStatus(value: string): HealthState {
  if (healthy.has(value)) return 'ok';
  if (pending.has(value) || value.startsWith('Init:')) return 'pending';
  if (value.startsWith('Ready,') || value === 'Warning') return 'warning';
  if (/Error|BackOff|Failed|NotReady|Invalid|Unknown|Evicted|OOMKilled|Err/.test(value)) return 'error';
  return 'unknown';
}

/** A cell of a table: status columns have a sign. */
export function CellText({ name, value, row }: { readonly name: string; readonly value: string; readonly row: Row }) {
  if (name !== 'Status' && name !== 'Phase' && name !== 'Type') return <>{value}</>;
  if (name === 'Type' && value !== 'Warning' && value !== 'Normal') return <>{value}</>;
  return <StatusDot health={row.isDeleted ? 'pending' : healthOfStatus(value)} label={value} />;
}
