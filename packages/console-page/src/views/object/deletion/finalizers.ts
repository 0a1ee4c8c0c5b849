import type { KubeObject } from '../../../api/client.ts';
import { text } from '../../../text/en.ts';

/** What holds an object that is being deleted. */
export interface Blocker {
  readonly finalizer: string;
  /** The component that removes the finalizer. */
  readonly remover: string;
  /** The condition under which it does. */
  readonly when: string;
}

const words = text.deletion;

/** Finalizers whose last part names the driver, such as `external-attacher/ebs-csi-aws-com`. */
const perDriver = ['external-attacher'];

/** Returns what holds an object: `metadata.finalizers`, and `spec.finalizers` of a namespace. */
export function blockersOf({ kind, metadata, ...rest }: KubeObject): readonly Blocker[] {
  const { finalizers = [] } = (kind === 'Namespace' ? (rest['spec'] ?? {}) : {}) as { readonly finalizers?: readonly string[] };
  return [...(metadata.finalizers ?? []), ...finalizers].map(explain);
}

function explain(finalizer: string): Blocker {
  const [domain = ''] = finalizer.split('/');
  const known = Object.hasOwn(words.finalizers, finalizer)
    ? words.finalizers[finalizer]
    : perDriver.includes(domain)
      ? words.finalizers[domain]
      : undefined;
  if (known !== undefined) return { finalizer, remover: known[0], when: known[1] };
  return { finalizer, remover: domain.includes('.') ? words.domain(domain) : words.unknown, when: words.unknownWhen };
}

interface NamespaceCondition {
  readonly type: string;
  readonly status: string;
  readonly message?: string;
}

/** Returns what the namespace controller reports about a namespace that it cannot delete yet. */
export function remainingContent({ kind, status }: KubeObject): readonly string[] {
  const { conditions = [] } = (status ?? {}) as { readonly conditions?: readonly NamespaceCondition[] };
  if (kind !== 'Namespace') return [];
  return conditions.filter((condition) => condition.status === 'True').map(({ type, message = '' }) => `${type}: ${message}`);
}
