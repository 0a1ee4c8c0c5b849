import { selectorFromLabelSelector, type Selector } from '@oarlock/api/selectors/label-selector';
import type { KubeObject, ObjectKey } from '@oarlock/api/object';
import { objectKey } from '@oarlock/api/object';
import { ParseError } from '@oarlock/api/values/parse-error';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import { nothing } from '@oarlock/api/selectors/label-selector';
import type { Informer } from '@oarlock/spi/client';

interface ObjectWithSelector extends KubeObject {
  readonly spec?: { readonly selector?: LabelSelector | Readonly<Record<string, string>> | undefined } | undefined;
}
type Labels = Readonly<Record<string, string>>;

const requirementIndex = 'selector-requirement';
const anyLabel = '*';
const entryKey = (namespace: string, label: string, value: string) => `${namespace} ${label}=${value}`;
const requirementOf = (object: ObjectWithSelector): readonly string[] => {
  const namespace = object.metadata?.namespace ?? '';
  const [first] = Object.entries((object.spec?.selector as LabelSelector | undefined)?.matchLabels ?? {});
  return [first === undefined ? `${namespace} ${anyLabel}` : entryKey(namespace, ...first)];
};

const compiledSelectors = new WeakMap<object, Selector>();
/** Returns the compiled `spec.selector` of an object, cached by selector object. An invalid selector matches nothing. */
export function selectorOf(object: ObjectWithSelector): Selector {
  const source = object.spec?.selector;
  if (source === undefined) return nothing;
  const known = compiledSelectors.get(source);
  if (known !== undefined) return known;
  let selector: Selector;
  try {
    selector = selectorFromLabelSelector(source as LabelSelector);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    selector = nothing;
  }
  compiledSelectors.set(source, selector);
  return selector;
}

/**
 * Finds the objects of one kind whose selectors match a set of labels. Indexes each selector by one of its labels, so that a lookup compares
 * only a few selectors.
 */
export class SelectorOwnerIndex<T extends ObjectWithSelector> {
  readonly #owners: Informer<T>;

  readonly #emptyMatches: boolean;

  /** With `emptyMatches`, an empty selector selects every object in the namespace; otherwise it selects none. */
  constructor(owners: Informer<T>, { emptyMatches = false }: { readonly emptyMatches?: boolean } = {}) {
    this.#owners = owners;
    this.#emptyMatches = emptyMatches;
    owners.addIndexer(requirementIndex, requirementOf);
  }

  /** Returns the objects of the namespace whose selectors match these labels. */
  of(namespace: string, labels: Labels | undefined): readonly T[] {
    const found: T[] = [];
    const addMatches = (value: string) => {
      for (const owner of this.#owners.byIndex(requirementIndex, value)) {
        const selector = selectorOf(owner);
        if ((this.#emptyMatches || !selector.empty) && selector.matches(labels)) found.push(owner);
      }
    };
    for (const [label, value] of Object.entries(labels ?? {})) addMatches(entryKey(namespace, label, value));
    addMatches(`${namespace} ${anyLabel}`);
    return found;
  }

  keysOf(namespace: string, labels: Labels | undefined): readonly ObjectKey[] {
    return this.of(namespace, labels).map(objectKey);
  }
}
