import type { CsiGroupSnapshot, CsiSnapshot, CsiVolume, ListedVolume } from '../csi-types.ts';
import type { AnswerChecks } from './answer-checks.ts';

// Each function returns a message of an answer after its checks. @throws GrpcError `INTERNAL` if a field is absent or invalid

export function checkedVolume(checks: AnswerChecks, field: string, volume: CsiVolume | undefined): CsiVolume {
  const checked = checks.present(field, volume);
  checks.id(`${field}.volume_id`, checked.volumeId);
  checks.bytes(`${field}.capacity_bytes`, checked.capacityBytes);
  checks.strings(`${field}.volume_context`, checked.volumeContext);
  checks.topologies(`${field}.accessible_topology`, checked.accessibleTopology);
  return checked;
}

export function checkedSnapshot(checks: AnswerChecks, field: string, snapshot: CsiSnapshot | undefined): CsiSnapshot {
  const checked = checks.present(field, snapshot);
  checks.id(`${field}.snapshot_id`, checked.snapshotId);
  checks.bytes(`${field}.size_bytes`, checked.sizeBytes);
  checks.time(`${field}.creation_time`, checked.creationTime);
  return checked;
}

export function checkedGroup(checks: AnswerChecks, group: CsiGroupSnapshot | undefined): CsiGroupSnapshot {
  const checked = checks.present('group_snapshot', group);
  checks.id('group_snapshot.group_snapshot_id', checked.groupSnapshotId);
  checks.time('group_snapshot.creation_time', checked.creationTime);
  for (const [at, snapshot] of checked.snapshots.entries()) checkedSnapshot(checks, `group_snapshot.snapshots[${at}]`, snapshot);
  return checked;
}

export function checkedStatus(checks: AnswerChecks, field: string, status: ListedVolume['status']): ListedVolume['status'] {
  checks.message(`${field}${field && '.'}status.volume_condition.message`, status.volumeCondition?.message ?? '');
  return status;
}
