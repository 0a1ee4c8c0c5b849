import { defaultPlacements, insertionPoints, type Section } from '@oarlock/cluster/cluster-file/sections';
import { isMap, isScalar, isSeq, parseDocument, stringify, type Document, type Node, type YAMLMap, type YAMLSeq } from 'yaml';
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
  else if (isSeq(present)) {
    const at = positionIn(present, { key, placement });
    const lines = before === undefined ? withLines(text, present, { at, placement }) : undefined;
    if (lines !== undefined) return lines;
    present.items.splice(at, 0, document.createNode(placement));
  } else {
    const list = document.createNode([
      ...(isScalar(present) && present.value !== null ? [present.value] : (defaultPlacements[key] ?? [])),
    ]) as YAMLSeq;
    spec.set(key, list);
    list.items.splice(positionIn(list, { key, placement }), 0, document.createNode(placement));
  }
  return document.toString(before ?? { indent: 2, lineWidth: 0 });
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

interface Insertion {
  readonly key: Section['key'];
  readonly placement: NewPlacement;
}

/** Returns the index at which a list gets a placement. @throws CommandError if it has the plugin */
function positionIn(list: YAMLSeq, { key, placement }: Insertion): number {
  const names = list.items.map(nameOf);
  if (names.includes(useOf(placement))) throw new CommandError(`spec.${key} already has ${useOf(placement)}`, exitCodes.usage);
  const { after, before } = insertionPoints[key] ?? {};
  const afterIndex = after === undefined ? -1 : names.indexOf(after);
  const beforeIndex = before === '' ? 0 : before === undefined ? -1 : names.indexOf(before);
  return afterIndex >= 0 ? afterIndex + 1 : beforeIndex >= 0 ? beforeIndex : names.length;
}

/** Inserts lines into a block list, for texts that the YAML library would format in another way. Undefined for other lists. */
function withLines(
  text: string,
  list: YAMLSeq,
  { at, placement }: { readonly at: number; readonly placement: NewPlacement },
): string | undefined {
  const rangeOf = (index: number) => (list.items[index] as Node | undefined)?.range;
  const first = rangeOf(0);
  const previous = at === 0 ? undefined : rangeOf(at - 1);
  if (list.flow === true || !first || (at > 0 && !previous)) return undefined;
  const indent = /^ *(?=- )/.exec(text.slice(text.lastIndexOf('\n', first[0] - 1) + 1))?.[0];
  if (indent === undefined) return undefined;
  // comments of an item stay before it
  const lineEnd = previous ? text.indexOf('\n', previous[1] - 1) : -1;
  const position = previous ? (lineEnd < 0 ? text.length : lineEnd + 1) : text.lastIndexOf('\n', first[0] - 1) + 1;
  const added = stringify([placement], { lineWidth: 0 }).replace(/^(?=.)/gm, indent);
  return `${text.slice(0, position)}${previous && lineEnd < 0 ? '\n' : ''}${added}${text.slice(position)}`;
}

const both = [true, false];
const formats = both.flatMap((indentSeq) =>
  both.flatMap((flowCollectionPadding) => [2, 4].map((indent) => ({ indent, indentSeq, flowCollectionPadding, lineWidth: 0 }))),
);

/** Returns the format in which the document is written as it was read, so that an insertion changes no other line; undefined if there is none. */
const formatOf = (document: Document, text: string) => formats.find((format) => document.toString(format) === text);
