import type { BlockList } from 'node:net';
import type { Answer, DecodedPacket, Packet, Question } from 'dns-packet';
import type { ClusterZone } from './cluster-zone.ts';
import { TooManyQueries, type Forwarder } from './forwarder.ts';
import { dnssecWanted, lowerCaseName, opt, optOf, rcodeOf, rcodes } from './message/message.ts';
import { addressOfReverse, shortest } from './message/reverse-name.ts';

const authoritative = 0x0400;
const recursionDesired = 0x0100;
const recursionAvailable = 0x0080;
const opcodeMask = 0x7800;
/** The maximum length of a CNAME chain. A longer chain is treated as a loop. */
const longestChain = 8;

export interface ResponderOptions {
  readonly zone: ClusterZone;
  readonly domain: string;
  readonly ttlSeconds: number;
  readonly forwarder: Forwarder;
  /** The address ranges of the cluster. Reverse queries for their addresses are not forwarded. */
  readonly ownRanges: BlockList;
  readonly onFailure: (name: string, error: unknown) => void;
  /** Called when a query is rejected because its client has its share of the queries to upstream servers. */
  readonly onRejected: () => void;
}

interface Client {
  readonly dnssec: boolean;
  readonly source: string;
}

interface Reply {
  readonly rcode: number;
  readonly authoritative: boolean;
  readonly answers?: readonly Answer[];
  readonly authorities?: readonly Answer[];
  readonly additionals?: readonly Answer[];
}

/** Answers DNS queries of any transport. Never rejects. */
export class Responder {
  readonly #options: ResponderOptions;

  constructor(options: ResponderOptions) {
    this.#options = options;
  }

  /** Returns the response to a query of the client with the address `source`. */
  async respond(query: DecodedPacket, source: string): Promise<Packet> {
    const [question, ...more] = query.questions ?? [];
    if (((query.flags ?? 0) & opcodeMask) !== 0) return packetOf(query, { rcode: rcodes.NOTIMP, authoritative: false });
    if (question === undefined || more.length > 0) return packetOf(query, { rcode: rcodes.FORMERR, authoritative: false });
    try {
      return packetOf(query, await this.#reply(question, { dnssec: wantsDnssec(query), source }));
    } catch (error) {
      if (error instanceof TooManyQueries) {
        this.#options.onRejected();
        return packetOf(query, { rcode: rcodes.REFUSED, authoritative: false }); // as CoreDNS's max_concurrent
      }
      this.#options.onFailure(question.name, error);
      return packetOf(query, { rcode: rcodes.SERVFAIL, authoritative: false });
    }
  }

  async #reply(question: Question, client: Client): Promise<Reply> {
    const name = lowerCaseName(question.name);
    const inCluster = this.#inCluster(name);
    if (inCluster !== undefined) return this.#cluster(inCluster, question, client);
    const address = addressOfReverse(name);
    const reversed = address === undefined ? undefined : this.#reverse(address, question);
    if (reversed !== undefined) return reversed;
    return replyOf(await this.#options.forwarder.ask(question, client));
  }

  /** Returns the name relative to the cluster domain; undefined if the name is outside the domain. */
  #inCluster(name: string): string | undefined {
    const { domain } = this.#options;
    if (name === domain) return '';
    return name.endsWith(`.${domain}`) ? name.slice(0, -domain.length - 1) : undefined;
  }

  async #cluster(relative: string, question: Question, client: Client): Promise<Reply> {
    const { zone, domain, ttlSeconds } = this.#options;
    const { type } = question;
    const chain: Answer[] = [];
    let at = relative;
    let queryName = question.name;
    for (let step = 0; step < longestChain; step++) {
      const found = zone.find(at, String(type), queryName);
      if (found === 'NoName') return { rcode: rcodes.NXDOMAIN, authoritative: true, answers: chain, authorities: [this.#soa()] };
      if (!('elsewhere' in found)) {
        const answers = [...chain, ...found.answers];
        return {
          rcode: rcodes.NOERROR,
          authoritative: true,
          answers,
          additionals: found.additionals,
          ...(answers.length === 0 && { authorities: [this.#soa()] }),
        };
      }
      const target = found.elsewhere.replace(/\.$/, '');
      chain.push({ type: 'CNAME', name: queryName, ttl: ttlSeconds, data: target });
      if (type === 'CNAME') return { rcode: rcodes.NOERROR, authoritative: true, answers: chain };
      const inside = this.#inCluster(lowerCaseName(target));
      if (inside === undefined) {
        const rest = replyOf(await this.#options.forwarder.ask({ ...question, name: target }, client));
        return { ...rest, authoritative: true, answers: [...chain, ...(rest.answers ?? [])] };
      }
      at = inside;
      queryName = target;
    }
    throw new Error(`CNAME loop: ${domain}`);
  }

  #reverse(address: string, question: Question): Reply | undefined {
    const { zone, ttlSeconds, ownRanges } = this.#options;
    const name = zone.nameOf(shortest(address));
    if (name !== undefined) {
      const answers: Answer[] =
        question.type === 'PTR' ? [{ type: 'PTR', name: question.name, ttl: ttlSeconds, data: zone.full(name) }] : [];
      return { rcode: rcodes.NOERROR, authoritative: true, answers, ...(answers.length === 0 && { authorities: [this.#soa()] }) };
    }
    const own = ownRanges.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
    return own ? { rcode: rcodes.NXDOMAIN, authoritative: true, authorities: [this.#soa()] } : undefined;
  }

  /** Returns the SOA record, which determines how long negative responses are cached (RFC 2308). */
  #soa(): Answer {
    const { domain, ttlSeconds } = this.#options;
    return {
      type: 'SOA',
      name: domain,
      ttl: ttlSeconds,
      data: {
        mname: `ns.dns.${domain}`,
        rname: `hostmaster.${domain}`,
        serial: 1,
        refresh: 7200,
        retry: 1800,
        expire: 86_400,
        minimum: ttlSeconds,
      },
    };
  }
}

export function errorReply(id: number, rcode: number): Packet {
  return { type: 'response', id, flags: rcode };
}

function packetOf(query: DecodedPacket, reply: Reply): Packet {
  const flags = (query.flags ?? 0) & (recursionDesired | opcodeMask);
  return {
    type: 'response',
    id: query.id ?? 0,
    flags: flags | recursionAvailable | (reply.authoritative ? authoritative : 0) | reply.rcode,
    questions: query.questions ?? [],
    answers: [...(reply.answers ?? [])],
    authorities: [...(reply.authorities ?? [])],
    additionals: [...(reply.additionals ?? []), ...(optOf(query) === undefined ? [] : [opt(false)])],
  };
}

function replyOf(packet: DecodedPacket): Reply {
  return {
    rcode: rcodeOf(packet),
    authoritative: false,
    answers: packet.answers ?? [],
    authorities: packet.authorities ?? [],
    additionals: (packet.additionals ?? []).filter(({ type }) => type !== 'OPT'),
  };
}

function wantsDnssec(query: DecodedPacket): boolean {
  return ((optOf(query)?.flags ?? 0) & dnssecWanted) !== 0;
}
