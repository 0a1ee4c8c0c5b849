import { invalid, type SparsePart } from './tar-header.ts';

/** The records of extended headers (POSIX pax) that apply to an entry. Keys are text; values are bytes. */
export type PaxRecords = Map<string, Buffer>;

/** Parses the body of an extended header: records of the form `LENGTH KEY=VALUE\n`. @throws OciError `InvalidContent` */
export function parsePax(body: Buffer): readonly (readonly [key: string, value: Buffer])[] {
  const records: (readonly [string, Buffer])[] = [];
  let at = 0;
  while (at < body.length) {
    const space = body.indexOf(0x20, at);
    const digits = space < 0 || space - at > 10 ? '' : body.toString('latin1', at, space);
    const length = /^[1-9][0-9]*$/.test(digits) ? Number(digits) : 0;
    const end = at + length;
    const equals = body.indexOf(0x3d, space + 1);
    if (length === 0 || end > body.length || body[end - 1] !== 0x0a || equals < 0 || equals >= end)
      throw invalid('an extended header is malformed');
    records.push([body.toString('latin1', space + 1, equals), body.subarray(equals + 1, end - 1)]);
    at = end;
  }
  return records;
}

/** Returns a record as decimal number; undefined if there is no such record. @throws OciError `InvalidContent` if it is not a number */
export function paxNumber(records: PaxRecords, key: string, { fractions = false } = {}): number | undefined {
  const value = records.get(key)?.toString('latin1');
  if (value === undefined) return undefined;
  const number = Number(value);
  if (!(fractions ? /^-?[0-9]+(\.[0-9]*)?$/ : /^[0-9]+$/).test(value) || !(fractions || Number.isSafeInteger(number)))
    throw invalid(`the extended header ${key} is not a number`);
  return number;
}

const maxSparseParts = 65_536;

/** Checks that the parts are in order, do not overlap, and lie within the file. @throws OciError `InvalidContent` */
export function checkSparse(parts: readonly SparsePart[], size: number, stored: number): readonly SparsePart[] {
  if (parts.length > maxSparseParts) throw invalid(`a sparse file has more than ${maxSparseParts} parts`);
  let end = 0;
  let sum = 0;
  for (const { offset, length } of parts) {
    if (offset < end || length < 0 || offset + length > size) throw invalid('the map of a sparse file is malformed');
    end = offset + length;
    sum += length;
  }
  if (sum !== stored) throw invalid('the map of a sparse file does not match its size');
  return parts;
}

const pairs = (numbers: readonly number[]): SparsePart[] => {
  const parts: SparsePart[] = [];
  for (let index = 0; index + 1 < numbers.length; index += 2) parts.push({ offset: numbers[index] ?? 0, length: numbers[index + 1] ?? 0 });
  return parts;
};

/** Collects the records of several sparse formats: 0.0 repeats `offset` and `numbytes`, which a map would overwrite. */
export function sparseOfRecords(list: readonly (readonly [string, Buffer])[], records: PaxRecords): readonly SparsePart[] | undefined {
  const toNumbers = (texts: readonly string[]) =>
    texts.map((each) => {
      if (!/^[0-9]{1,16}$/.test(each)) throw invalid('the map of a sparse file is malformed');
      return Number(each);
    });
  const map = records.get('GNU.sparse.map')?.toString('latin1');
  if (map !== undefined) {
    const numbers = toNumbers(map === '' ? [] : map.split(','));
    if (numbers.length % 2 !== 0) throw invalid('the map of a sparse file is malformed');
    return pairs(numbers);
  }
  if (records.get('GNU.sparse.numblocks') === undefined) return undefined;
  return pairs(
    toNumbers(
      list.filter(([key]) => key === 'GNU.sparse.offset' || key === 'GNU.sparse.numbytes').map(([, value]) => value.toString('latin1')),
    ),
  );
}
