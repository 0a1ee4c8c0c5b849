import type { Pod } from '@oarlock/api/types/core-v1';
import { baseline } from './baseline.ts';
import { viewOf, type Violation } from './pod-view.ts';
import { restricted } from './restricted.ts';

export const levels = ['privileged', 'baseline', 'restricted'] as const;
export type Level = (typeof levels)[number];
/** The minor Kubernetes version of this API server. The policy version `latest` resolves to it. */
export const latest = 36;

export interface LevelVersion {
  readonly level: Level;
  /** The minor version of a policy version `v1.<minor>`; undefined for `latest`. */
  readonly minor: number | undefined;
}

export const parseLevel = (text: string): Level | undefined => levels.find((level) => level === text);
/** Parses a policy version, `latest` or for example `v1.24`. Returns undefined for other text. */
export function parseVersion(text: string): { readonly minor: number | undefined } | undefined {
  if (text === 'latest') return { minor: undefined };
  const minor = /^v1\.([0-9]{1,4})$/.exec(text)?.[1];
  return minor === undefined ? undefined : { minor: Number(minor) };
}
export const named = ({ level, minor }: LevelVersion): string => `${level}:${minor === undefined ? 'latest' : `v1.${minor}`}`;

/** Returns the pod's violations of a policy, in the order of upstream's checks. */
export function violations({ level, minor = latest }: LevelVersion, pod: Pick<Pod, 'metadata' | 'spec'>): readonly Violation[] {
  if (level === 'privileged') return [];
  const view = viewOf(pod);
  const more = level === 'restricted' ? restricted.filter(({ since }) => minor >= since) : [];
  const replaced = new Set(more.map(({ replaces }) => replaces));
  const rules = [
    ...baseline.filter((each) => minor >= each.since && (each.replaced === undefined || !replaced.has(each.replaced))),
    ...more,
  ];
  return rules.flatMap(({ rule }) => rule(view, minor) ?? []);
}

/** Formats violations as `host namespaces (hostNetwork=true), privileged (container "a" must not ...)`. */
export const described = (found: readonly Violation[]): string => found.map(({ reason, detail }) => `${reason} (${detail})`).join(', ');
