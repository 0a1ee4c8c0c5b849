import type { Taint, Toleration } from '@oarlock/api/types/core-v1';

/** An absent effect or key of a toleration stands for all. */
export function tolerates(toleration: Toleration, taint: Taint): boolean {
  if (toleration.effect && toleration.effect !== taint.effect) return false;
  if (toleration.key && toleration.key !== taint.key) return false;
  const whole = /^[+-]?[0-9]+$/;
  switch (toleration.operator ?? '') {
    case '':
    case 'Equal':
      return (toleration.value ?? '') === (taint.value ?? '');
    case 'Exists':
      return true;
    case 'Gt':
    case 'Lt': {
      const [is, bound] = [taint.value ?? '', toleration.value ?? ''];
      if (!whole.test(is) || !whole.test(bound)) return false;
      return toleration.operator === 'Gt' ? BigInt(is) > BigInt(bound) : BigInt(is) < BigInt(bound);
    }
    default:
      return false;
  }
}

export const isTolerated = (taint: Taint, tolerations: readonly Toleration[]): boolean =>
  tolerations.some((toleration) => tolerates(toleration, taint));
