/**
 * Words and phrases that text of this project does not use, each with what to write instead. The list applies to comments, test titles and Markdown
 * prose. It exists because vague subjects ("whoever asks") and personified code ("the server says") had to be decoded by every reader.
 */
export const bannedPhrases = [
  [
    /\b(whoever|whom|whomever|nobody|somebody|anybody|everybody|no one|someone)\b/i,
    'name the subject: the caller, the API server, the plugin',
  ],
  [/\b(says?|said|tells?|told)\b/i, 'specifies, reports, prints, states, returns'],
  [/\b(asks?|asked)\b/i, 'requests, calls, queries'],
  [/\b(wants?|wanted)\b/i, 'requests, needs, desired'],
  [/\b(rooms?|doors?|keepers?|machinery|whereabouts)\b/i, 'capacity, package, frontend, manager: the exact noun'],
  [/\b(by and by|in vain|as ever|of (its|their) own accord|here and there|for its part)\b/i, 'state the condition or delete the phrase'],
  [/\b(mend(s|ed|ing)?)\b/i, 'fix, repair'],
  [/\b(knows? nothing|know nothing)\b/i, 'does not depend on, is independent of'],
  [/\bwhat (is|was|are|were) (not )?there\b/i, 'name what exists: the object, the file, the existing pods'],
  [/\b(is|are|was|were) not there\b/i, 'does not exist, is absent'],
  [/\b(of ours|of theirs|ours)\b/i, "name the owner: Oarlock's, the plugin's"],
  [/\b(goes by|go by|stands? back|takes? up|taken up|makes? of|stands? in for)\b/i, 'uses, yields, loads, replaces'],
  [/\b(refus(e|es|ed|ing|als?))\b/i, 'reject, deny, forbid, decline (connection refused stays)'],
];

/** Phrases of a banned pattern that are terms of the field. */
export const allowedPhrases = [
  /sig-api-machinery/,
  /connection refused|ECONNREFUSED|REFUSED_STREAM|\brefused (stream|connection)/i,
  /\b\w+ wants? to (read|write)\b/i,
];

/** `who` refers to people; code and components are not people, so comments do without it. */
export const bannedInComments = [[/\bwho\b/i, 'name the subject: the caller, the client, the component that ...']];

/** Words that no declared name contains, as parts of a camelCase or kebab-case name. */
export const bannedNameParts = new Map(
  Object.entries({
    door: 'frontend, listener',
    doors: 'frontends, listeners',
    keeper: 'manager',
    machinery: 'the exact dependency',
    whereabouts: 'location',
    situation: 'conditions',
    nobody: 'the exact condition',
    somebody: 'the exact subject',
    whoever: 'the exact subject',
    rounds: 'runner',
    room: 'capacity, space',
    team: 'podGroup',
    tally: 'counts, counter',
    refusal: 'rejection, denial',
    refusals: 'rejections',
    refuse: 'reject, deny',
    refused: 'rejected, denied',
    tell: 'notify, report',
    tells: 'notifies, reports',
    telling: 'notifying, reporting',
    told: 'notified, reported',
    say: 'report',
    says: 'reports',
    said: 'reported',
    asker: 'caller',
    mended: 'repaired',
    lacks: 'is missing',
  }),
);

/** Names that are no name by themselves: a reader cannot tell what they hold. */
export const bannedNames = new Set(
  'shown given told said placed written settled completed things basics made taken heard judged meant begun whereabouts nobody everybody lack judge'.split(
    ' ',
  ),
);
