// A party that wants the best seats that are left.

import type { Wish } from "../api/types.ts";
import { clamped } from "../shell/numbers.ts";

/** What was asked for; "" is anywhere, at any price. */
export interface Party {
  quantity: number;
  section: string;
  tier: string;
  accessible: number;
}

/** Never more wheelchair places than people, nor more people than one account may bring. */
export function wholeParty(party: Party, limit: number): Party {
  const quantity = clamped(party.quantity, 1, limit);
  return { ...party, quantity, accessible: clamped(party.accessible, 0, quantity) };
}

/** The request for it; what was left open is left out. */
export function wishOf({ quantity, section, tier, accessible }: Party): Wish {
  return {
    bestAvailable: {
      quantity,
      ...(section !== "" && { section }),
      ...(tier !== "" && { tier: Number(tier) }),
      ...(accessible > 0 && { accessible }),
    },
  };
}
