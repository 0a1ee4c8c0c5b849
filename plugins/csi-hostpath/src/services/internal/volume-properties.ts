import type { CapacityRange, Topology, VolumeContentSource } from '@oarlock/csi/csi-types';
import { GrpcError } from '@oarlock/grpc/grpc-error';

/** The size of a volume without a required size: 1 GiB, or the limit if the limit is smaller. */
const defaultBytes = 1 << 30;

/** Returns the size of a new volume, which is at least `minBytes`. @throws GrpcError `OUT_OF_RANGE` if the range allows no such size */
export function newVolumeSize(range: CapacityRange = {}, minBytes = 0): number {
  const { requiredBytes = 0, limitBytes = 0 } = range;
  if (requiredBytes < 0 || limitBytes < 0) throw new GrpcError('INVALID_ARGUMENT', 'capacity_range has a negative number of bytes');
  const requested = requiredBytes > 0 ? requiredBytes : minBytes > 0 ? minBytes : limitedDefault(limitBytes);
  const bytes = Math.max(minBytes, requested);
  if (limitBytes > 0 && bytes > limitBytes)
    throw new GrpcError('OUT_OF_RANGE', `at least ${bytes} bytes are required, but the limit is ${limitBytes}`);
  return bytes;
}
const limitedDefault = (limitBytes: number) => (limitBytes > 0 ? Math.min(limitBytes, defaultBytes) : defaultBytes);

/** Returns the size of a volume after an expansion. A volume never shrinks. @throws GrpcError `OUT_OF_RANGE` if the range allows no such size */
export const expandedSize = (range: CapacityRange, currentBytes: number): number =>
  Math.max(currentBytes, newVolumeSize(range, currentBytes));

export const isInRange = (bytes: number, { requiredBytes = 0, limitBytes = 0 }: CapacityRange = {}): boolean =>
  bytes >= requiredBytes && (limitBytes === 0 || bytes <= limitBytes);

export const isSameSource = (one: VolumeContentSource | undefined, other: VolumeContentSource | undefined): boolean =>
  one?.snapshot?.snapshotId === other?.snapshot?.snapshotId && one?.volume?.volumeId === other?.volume?.volumeId;

/** Returns true if `topology` contains all segments of `part`. */
export const includesTopology = (topology: Topology, part: Topology): boolean =>
  Object.entries(part.segments).every(([key, value]) => topology.segments[key] === value);
