import type { PodSandbox, PodSandboxStatus, SandboxFilter } from '@oarlock/spi/runtime';
import type { SandboxRecord } from '../protocol/supervisor-protocol.ts';

export function sandboxStatus({ id, metadata, state, createdAt, labels, annotations, ips }: SandboxRecord): PodSandboxStatus {
  return { id, metadata, state, createdAt, labels, annotations, ips };
}

export function hasLabels(labels: Readonly<Record<string, string>>, selector: Readonly<Record<string, string>> = {}): boolean {
  return Object.entries(selector).every(([key, value]) => labels[key] === value);
}

/** Returns the sandboxes that match, without their configs. */
export function matchingSandboxes(records: readonly SandboxRecord[], filter: SandboxFilter): readonly PodSandbox[] {
  return records
    .filter(
      (record) =>
        (filter.id ?? record.id) === record.id &&
        (filter.state ?? record.state) === record.state &&
        hasLabels(record.labels, filter.labels),
    )
    .map(({ id, metadata, state, createdAt, labels, annotations }) => ({ id, metadata, state, createdAt, labels, annotations }));
}
