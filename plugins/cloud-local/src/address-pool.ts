import { cidrSize, parseCIDR } from '@oarlock/api/net/cidr';
import { parseIPNumber, familyOf, formatIPNumber, type IPFamily } from '@oarlock/api/net/ip-number';

const maxOfRange = 65_536n;

/**
 * The addresses of a list of ranges, in order. A range is a CIDR (without the network address and, for IPv4, the broadcast address), `first-last` or
 * a single address.
 */
export class AddressPool {
  readonly #ranges: readonly { readonly family: IPFamily; readonly first: bigint; readonly last: bigint }[];

  /** @throws RangeError if a range is invalid or has more than 65,536 addresses */
  constructor(ranges: readonly string[]) {
    this.#ranges = ranges.map((text) => {
      const [from = '', to = from] = text.includes('/') ? cidr(text) : text.split('-');
      const [first, last, family] = [parseIPNumber(from), parseIPNumber(to), familyOf(from)];
      if (first === undefined || last === undefined || family === undefined || family !== familyOf(to) || last < first)
        throw new RangeError(`${text} is not an address range such as 10.0.0.240/28 or 10.0.0.240-10.0.0.250`);
      if (last - first >= maxOfRange) throw new RangeError(`${text} has more than ${maxOfRange} addresses`);
      return { family, first, last };
    });
  }

  has(address: string): boolean {
    const [value, family] = [parseIPNumber(address), familyOf(address)];
    return value !== undefined && this.#ranges.some((range) => range.family === family && value >= range.first && value <= range.last);
  }

  *all(family: IPFamily): Generator<string> {
    for (const range of this.#ranges)
      if (range.family === family) for (let value = range.first; value <= range.last; value++) yield formatIPNumber(value, family);
  }
}

function cidr(text: string): readonly string[] {
  const range = parseCIDR(text);
  if (range === undefined) return [text];
  const { family, first, last } = range;
  if (cidrSize(range) < 4n) return [formatIPNumber(first, family), formatIPNumber(last, family)];
  return [formatIPNumber(first + 1n, family), formatIPNumber(family === 'IPv4' ? last - 1n : last, family)];
}
