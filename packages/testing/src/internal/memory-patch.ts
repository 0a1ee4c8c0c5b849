import { errorText } from '@oarlock/primitives/error-text';
import { applyJsonPatch } from '@oarlock/api/patches/json-patch';
import { gvkOf } from '@oarlock/api/kinds';
import { applyMergePatch } from '@oarlock/api/patches/merge-patch';
import type { KubeObject } from '@oarlock/api/object';
import { schemaOf } from '@oarlock/api/schema/schema';
import { failure, isStatus } from '@oarlock/api/status';
import { applyStrategicMergePatch } from '@oarlock/api/patches/strategic-merge-patch';
import type { PatchType } from '@oarlock/spi/client';

/** Returns the patched object; `current` is not modified. */
export function applyMemoryPatch(current: KubeObject, type: PatchType, patch: unknown): unknown {
  try {
    switch (type) {
      case 'json':
        return applyJsonPatch(current, patch);
      case 'merge':
        return applyMergePatch(current, patch);
      case 'strategic': {
        const schema = schemaOf(gvkOf(current));
        if (schema !== undefined) return applyStrategicMergePatch(current as Record<string, unknown>, patch, schema);
      }
    }
  } catch (cause) {
    if (isStatus(cause)) throw cause;
    throw failure('Invalid', errorText(cause));
  }
  throw failure('UnsupportedMediaType', `the memory API does not support ${type} patches of this resource`);
}
