import type { Taint, Toleration } from '../generated/types/core-v1.ts';
import type { DeviceTaint, DeviceToleration } from '../generated/types/resource-v1.ts';
import { parseInt64 } from '../values/int64.ts';

type TaintIdentity = Pick<Taint, 'key' | 'value' | 'effect'>;
type TolerationRule = Pick<Toleration, 'key' | 'operator' | 'value' | 'effect'>;

/** An empty effect or key of a toleration matches every effect or key. */
const matchesEffectAndKey = ({ key, effect }: TolerationRule, taint: TaintIdentity) =>
  (!effect || effect === taint.effect) && (!key || key === taint.key);

/**
 * Returns true if the toleration tolerates the taint (upstream's ToleratesTaint).
 *
 * `Equal`, the default operator, compares the values, also if the key is empty. `Exists` matches every value. `Gt` and `Lt` compare int64
 * values (KEP-5471; API validation admits them only with the feature gate TaintTolerationComparisonOperators). An unknown operator
 * tolerates nothing.
 */
export function toleratesTaint(toleration: TolerationRule, taint: TaintIdentity): boolean {
  if (!matchesEffectAndKey(toleration, taint)) return false;
  switch (toleration.operator ?? '') {
    case '':
    case 'Equal':
      return (toleration.value ?? '') === (taint.value ?? '');
    case 'Exists':
      return true;
    case 'Gt':
    case 'Lt': {
      const bound = parseInt64(toleration.value ?? '');
      const value = parseInt64(taint.value ?? '');
      if (bound === undefined || value === undefined) return false;
      return toleration.operator === 'Gt' ? value > bound : value < bound;
    }
    default:
      return false;
  }
}

/** Returns true if at least one of the tolerations tolerates the taint. */
export const isTolerated = (taint: TaintIdentity, tolerations: readonly TolerationRule[]): boolean =>
  tolerations.some((toleration) => toleratesTaint(toleration, taint));

/** Returns the first taint with one of the effects that no toleration tolerates (upstream's FindMatchingUntoleratedTaint). */
export const findUntoleratedTaint = (
  taints: readonly Taint[] | undefined,
  tolerations: readonly TolerationRule[],
  effects: ReadonlySet<string>,
): Taint | undefined => taints?.find((taint) => effects.has(taint.effect) && !isTolerated(taint, tolerations));

/** Returns true if a toleration of a device request tolerates the taint of a device. The operators are `Equal` and `Exists` (KEP-5055). */
export const toleratesDeviceTaint = (toleration: DeviceToleration, taint: DeviceTaint): boolean =>
  toleration.operator !== 'Gt' && toleration.operator !== 'Lt' && toleratesTaint(toleration, taint);
