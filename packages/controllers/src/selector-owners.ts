import { selectorFromObject, type Selector } from '@oarlock/api/label-selector';
import type { KubeObject, ObjectKey } from '@oarlock/api/object';
import { objectKey } from '@oarlock/api/object';
import { ParseError } from '@oarlock/api/parse-error';
import type { LabelSelector } from '@oarlock/api/types/meta-v1';
import { nothing } from '@oarlock/api/label-selector';
import type { Informer } from '@oarlock/spi/client';

interface Selecting extends KubeObject {
  readonly spec?: { readonly selector?: LabelSelector | Readonly<Record<string, string>> | undefined } | undefined;
}
type Labels = Readonly<Record<string, string>>;

const byRequirement = 'selector-requirement';
const anyLabel = '*';
const entryKey = (namespace: string, label: string, value: string) => `${namespace} ${label}=${value}`;
const requirementOf = (object: Selecting): readonly string[] => {
  const namespace = object.metadata?.namespace ?? '';
  const [first] = Object.entries((object.spec?.selector as LabelSelector | undefined)?.matchLabels ?? {});
  return [first === undefined ? `${namespace} ${anyLabel}` : entryKey(namespace, ...first)];
};

const compiled = new WeakMap<object, Selector>();
/** The selector of an object's spec, compiled once per version of it. One that cannot be read selects nothing. */
export function selectorOf(object: Selecting): Selector {
  const source = object.spec?.selector;
  if (source === undefined) return nothing;
  const known = compiled.get(source);
  if (known !== undefined) return known;
  let selector: Selector;
  try {
    selector = selectorFromObject(source as LabelSelector);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    selector = nothing;
  }
  compiled.set(source, selector);
  return selector;
}

/** From labels to the objects of one kind whose selectors match them, by one label of each selector instead of by trying all. */
export class SelectorOwners<T extends Selecting> {
  readonly #owners: Informer<T>;

  readonly #emptyMatches: boolean;

  /** `emptyMatches`: an empty selector selects everything in its namespace instead of nothing. */
  constructor(owners: Informer<T>, { emptyMatches = false }: { readonly emptyMatches?: boolean } = {}) {
    this.#owners = owners;
    this.#emptyMatches = emptyMatches;
    owners.addIndex(byRequirement, requirementOf);
  }

  /** Objects of the namespace that select these labels. */
  of(namespace: string, labels: Labels | undefined): readonly T[] {
    const found: T[] = [];
    const look = (value: string) => {
      for (const owner of this.#owners.byIndex(byRequirement, value)) {
        const selector = selectorOf(owner);
        if ((this.#emptyMatches || !selector.empty) && selector.matches(labels)) found.push(owner);
      }
    };
    for (const [label, value] of Object.entries(labels ?? {})) look(entryKey(namespace, label, value));
    look(`${namespace} ${anyLabel}`);
    return found;
  }

  keysOf(namespace: string, labels: Labels | undefined): readonly ObjectKey[] {
    return this.of(namespace, labels).map(objectKey);
  }
}
