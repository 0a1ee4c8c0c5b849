import { defaultPlacements, insertionPoints, type Section } from '@oarlock/cluster/cluster-file/sections';
import { isMap, isScalar, isSeq, parseDocument, type Document, type YAMLMap, type YAMLSeq } from 'yaml';
import { CommandError, exitCodes } from '../common/command-error.ts';

/** A placement to add: only its name, or its name and config. */
export type NewPlacement = string | { readonly use: string; readonly config: unknown };

/** Sections that hold one plugin instead of a list. */
const isList = ({ slot, key }: Section): boolean => slot.arity !== 'one' || key === 'paths';
const useOf = (placement: NewPlacement): string => (typeof placement === 'string' ? placement : placement.use);

/**
 * Returns the text of a cluster file with a placement in a section, at the position that the order of the section requires. Comments stay. A section that the file
 * leaves to its default is written out first.
 * @throws CommandError if the file is not YAML, the section has the plugin, or it holds one plugin and has one
 */
export function withPlacement(text: string, section: Section, placement: NewPlacement): string {
  const document = parseDocument(text);
  const spec: unknown = document.get('spec');
  if (document.errors.length > 0 || !isMap(spec)) throw new CommandError('the cluster file has no valid `spec`', exitCodes.usage);
  const before = formatOf(document, text);
  const { key } = section;
  const present: unknown = spec.get(key, true);
  if (!isList(section)) setOnly(document, { spec, key, present, placement });
  else if (isSeq(present)) insert(document, present, { key, placement });
  else {
    const list = document.createNode([
      ...(isScalar(present) && present.value !== null ? [present.value] : (defaultPlacements[key] ?? [])),
    ]) as YAMLSeq;
    spec.set(key, list);
    insert(document, list, { key, placement });
  }
  return document.toString(before);
}

interface OnlyPlugin {
  readonly spec: YAMLMap;
  readonly key: string;
  readonly present: unknown;
  readonly placement: NewPlacement;
}

function setOnly(document: Document, { spec, key, present, placement }: OnlyPlugin): void {
  if (present !== undefined && !(isScalar(present) && present.value === null)) {
    const current = nameOf(present);
    throw new CommandError(`spec.${key} takes one plugin and has ${current}: remove it first`, exitCodes.usage);
  }
  spec.set(key, document.createNode(placement));
}

function nameOf(node: unknown): string {
  const value: unknown = isScalar(node) ? node.value : isMap(node) ? node.get('use') : undefined;
  return typeof value === 'string' ? value : '';
}

function insert(
  document: Document,
  list: YAMLSeq,
  { key, placement }: { readonly key: Section['key']; readonly placement: NewPlacement },
): void {
  const names = list.items.map(nameOf);
  if (names.includes(useOf(placement))) throw new CommandError(`spec.${key} already has ${useOf(placement)}`, exitCodes.usage);
  const { after, before } = insertionPoints[key] ?? {};
  const afterIndex = after === undefined ? -1 : names.indexOf(after);
  const beforeIndex = before === '' ? 0 : before === undefined ? -1 : names.indexOf(before);
  const at = afterIndex >= 0 ? afterIndex + 1 : beforeIndex >= 0 ? beforeIndex : names.length;
  list.items.splice(at, 0, document.createNode(placement));
}

const both = [true, false];
const formats = both.flatMap((indentSeq) =>
  both.flatMap((flowCollectionPadding) => [2, 4].map((indent) => ({ indent, indentSeq, flowCollectionPadding, lineWidth: 0 }))),
);

/** Returns the format in which the document is written as it was read, so that an insertion changes no other line. */
function formatOf(document: Document, text: string) {
  return formats.find((format) => document.toString(format) === text) ?? { indent: 2, lineWidth: 0 };
}
