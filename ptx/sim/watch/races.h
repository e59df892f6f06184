// Races by happens-before: who touched each byte last, and what each thread knows of the others (the memory consistency
// model, manual 8). Exact for the run that it watches: two accesses of the same bytes, of which one writes, race if
// nothing orders them, whatever their distance in time, and unless they are morally strong. Each operation that
// finishes by itself is a thread of its own. Shared and global memory; one core tells it everything in the order in
// which it is.
//
// What a thread knows is several clocks (View). The first is the base causality order. Two say what of it has also
// passed a proxy fence towards the asynchronous proxy, one the same for tensor maps, one what a fence.sc tells those
// that come behind it. Three know more than is so, what would be known if scopes were wide enough, or relaxed accesses
// or instructions with a member mask ordered others: they name the mistake.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ptx/base/diagnostic.h"
#include "ptx/sim/machine/cta.h"
#include "ptx/sim/recording.h"
#include "ptx/sim/watch/clock.h"
#include "ptx/sim/watch/observer.h"
#include "ptx/sim/watch/plane.h"
#include "ptx/sim/watch/text_values.h"
#include "ptx/sim/watch/view.h"

namespace ptx::sim {

inline constexpr std::uint64_t tensor_window = 4ull << 56;  // of Races' addresses

class Races final : public Observer {
 public:
  // `checks`: the rules whose breaches are kept.
  Races(const Launch& launch, Checks checks);
  // The launch before may still run; until a thread waits for it, nobody touches what it wrote.
  void begin_beside(std::vector<Recording::Unfinished> unfinished);
  // What this launch leaves to one that begins beside it.
  std::vector<Recording::Unfinished> unfinished() const;
  // What a thread did that ended at `end`: it asked an mbarrier, heard no, and went on. "" if there is none.
  std::string refusal(const sim::Site& end) const;
  // The breaches, each pair of lines once, in the order in which they were found.
  std::vector<Report> reports() const;

  void accessed(const Agent& agent, const Location& where, Access kind, const Manner& manner) override;
  void touched(const Touch& touch) override;
  void began(const Operation& operation) override;
  void began(Warp& warp, const ThreadCopy& copy) override;
  void finished(const Operation& operation) override;
  void arrived(Warp& warp, Mask lanes, const Channel& channel, const Manner& manner, bool stays) override;
  void arrived(const Operation& operation, const Channel& channel) override;
  void completed(const Channel& channel) override;
  void passed(Warp& warp, Mask lanes, const Channel& channel, const Manner& manner) override;
  Mask refused(Warp& warp, Mask lanes, const Channel& channel, std::uint64_t phase, bool complete) override;
  void made(const Channel& channel) override;
  void met(Warp& warp, Mask lanes) override;
  void gathered(Warp& warp, Mask lanes) override;
  void fenced(Warp& warp, Mask lanes, Fence fence, const Manner& manner) override;
  void fenced_map(Warp& warp, int lane, const Location& map, const Manner& manner) override;
  void waited(Warp& warp, Mask lanes, Group group, std::uint64_t through) override;
  void loaded(Warp& warp, std::uint64_t through) override;
  void exited(Warp& warp, Mask lanes) override;
  void ended(Cta& cta) override;
  void over(Cluster& cluster) override;

 private:
  // An access in the text, at a time: of a warp's lanes, or of an operation.
  struct Site {
    Who who;     // the warp, or the stream of the operation
    Who thread;  // the warp of who began it
    Time time;
    std::uint32_t pc;
    std::uint32_t bytes;
    Manner manner;
    Access kind;
    bool operation;
    bool fenced_init = false;  // an mbarrier.init that fence.mbarrier_init has followed
    Time begun = 0;            // of a copy, in its thread's time; else 0
    Time made = 0;             // the launch's time at the first of these accesses
  };
  // What each lane has of its own: until when its copies are over, since it has waited for them, and its last fence.sc
  // of the device. It knows that itself; others learn it as they learn what it has done.
  struct Own {
    std::array<Time, lanes> until{};      // none begins between the last that is over and this; 0: it has begun none
    std::array<Time, lanes> last{};       // when the last of those began; 0: none is over
    std::array<Time, lanes> sequenced{};  // what is before that fence; 0: it has executed none
  };
  // What a doer has found of sites, and will find again.
  struct Asks {
    std::uint32_t over = 0, over_before = 0;  // all of their accesses are over, and may be followed by this one
    std::array<std::uint32_t, 16> apart{};    // it does not stand for them; each lies at its number's last bits
  };
  // Who does an access now, and what they know.
  struct Doer {
    const View* view;
    Who who, thread;
    int lane;
    std::uint32_t pc;
    std::uint32_t bytes;
    Manner manner;
    Access kind;
    bool operation;
    Time begun = 0;      // of an operation
    bool first = false;  // nobody has written these bytes before
    bool each = false;   // of a product: Agent::each
    bool follows = false;
    const Own* own = nullptr;  // what it knows beside the view: of its thread's copies;
    Time done = 0;             // a copy, of what its thread did before
    Asks asks{};
  };
  // What one lane's fences hold back: what a later strong write releases, and what a later fence acquires.
  struct Held {
    Time released = 0;  // 0: no fence yet
    Scope scope = Scope::cta;
    View release;
    std::array<View, 3> read{};  // by the scope that a fence needs
    View narrow{};               // released for a scope without this thread
  };
  struct Part {
    Mask lanes;
    View view;
  };
  // Copies that lanes with one view have begun by one instruction.
  struct Copies {
    View view;
    Who thread;  // the warp
    Time begun;
    std::uint32_t pc;
    Mask lanes;
    Own own;
  };
  struct Copying {  // one of them
    std::shared_ptr<const Copies> all;
    int lane;
  };
  struct CopyGroup {
    std::uint32_t number;
    Time first, last;
  };
  // Lanes that heard no from a test_wait or try_wait of one mbarrier, of this phase.
  struct Asked {
    std::uint64_t phase = 0;  // and 1; 0: none
    Mask refused = 0;
  };
  // The last of these of a warp that went on, and have not passed that mbarrier since.
  struct WentOn {
    Who who = 0;  // the warp
    std::uint32_t pc = 0, object = 0;
    Mask lanes = 0;
  };
  struct Watched {
    Who who = 0;
    std::uint64_t cta = 0;
    Mask present = 0;
    std::uint64_t learned = 0;                          // how often its views and what its fences hold back changed
    Time stamp = 1;                                     // of its accesses: later than all that it has published
    bool touched = false;                               // since then, but for mbarriers
    bool stamped = false;                               // since then, mbarriers too
    std::vector<Part> parts;                            // lanes that know the same
    std::vector<std::pair<Time, std::uint32_t>> sites;  // by pc: the site of that time
    std::array<std::unique_ptr<Held>, lanes> held;
    std::array<std::uint64_t, lanes> updated{};  // where each lane's last strong update was
    Own own{};
    std::array<std::vector<CopyGroup>, lanes> copy_groups;           // of copies that no wait has covered
    std::shared_ptr<Copies> copies{};                                // the last, as long as the warp does nothing else
    std::map<std::pair<std::uint32_t, std::uint32_t>, Asked> asked;  // by pc and offset
    WentOn went_on{};
    // Lanes that have read by this instruction what was released there, and would learn nothing by it again.
    struct {
      std::uint64_t address = 0, version = 0;
      std::uint32_t pc = 0, site = 0;
      Mask lanes = 0, learned = 0;  // learned: what is so; lanes: also what narrow scopes and relaxed accesses tell
    } looked{};
    // The last thing that the warp did: an update of one place that left memory as it was.
    struct {
      std::uint64_t address = 0, version = 0, learned = 0;
      Time stamp = 0;
      std::uint32_t pc = 0;
      Mask lanes = 0;
    } vain{};
    // Its last fence.
    struct {
      std::uint64_t learned = 0, sequential = 0;
      Time stamp = 0;  // 0: none
      Manner manner{};
      Mask lanes = 0;
    } fence{};
    // If it has this stamp, the only thing that the warp has done since then.
    struct {
      std::uint64_t address = 0;
      Time stamp = 0;
      std::uint32_t pc = 0;
    } look{};
    // Lanes whose fence is not done yet: it tells nothing if they look again in vain.
    Mask fence_again = 0;
  };
  // What writes of one CTA with one scope have released to a place.
  struct Release {
    Scope scope;
    std::uint64_t cta;
    bool ordered;  // by release semantics; else View::any_order alone counts
    std::uint32_t bytes;
    View view;
    Who thread = 0;  // if it is one
  };
  // What all releases of one size to a place are together.
  struct Sum {
    std::uint32_t bytes;
    std::array<View, 2> all{}, wide{};  // by `ordered`; wide: those of .gpu and .sys, which are for all CTAs
    void add(Scope scope, bool ordered, const View& view);
  };
  struct Released {
    static constexpr std::size_t few = 3;  // so many have no sums
    std::vector<Release> all{};
    std::vector<Sum> sums{};
    std::uint64_t version = 0;  // another after each change
    void add(Release release);
    void sum(const Release& release);
    void keep(Who thread);
  };
  // What has come to a channel, and what those who pass learn; from the CTA that has it, and from others.
  struct Gathered {
    View near, far;
  };
  struct Meeting {
    Gathered gathering, last;
    std::vector<Moment> done{};  // of a barrier: what those who came have done, beside what they know
    std::uint32_t came = 0;      // lanes, in this phase
    bool all_stay = true;
    std::uint32_t phase = 0;
    Who stream = 0;  // of operations that complete on it; of a barrier, its phases
    // Barriers: whether the last phase was of a number of threads, and the pcs of an arrival then and of the last one.
    bool counted = false;
    std::uint32_t before = 0, now = 0;
    std::map<Who, std::uint32_t> ahead{};  // warps that last came by bar.arrive, and did not wait: the pc
    // The last lanes that came, one by one, by one instruction.
    Watched* recent = nullptr;
    Mask lanes = 0;
    Time time = 0;
    std::uint32_t pc = 0;
    Manner manner{};
    View view{};
    Own own{};
  };
  struct Ongoing {  // an operation
    View view;
    View each{};  // of a product: what each of its warps knows
    Time begun = 0;
    Who thread = 0;
    int lane = 0;
    bool piped = false;         // of tcgen05, or a product
    bool follows = false;       // Operation::follows
    Who reads = 0, writes = 0;  // streams, where it signals no mbarrier
    Time time = 0;
    std::vector<Operation::Signal> signals{};
  };
  struct Left {  // of a CTA's threads that exited
    View view;
    std::uint32_t pc = 0;
    Who thread = 0;
    int lane = 0;
  };
  using ChannelKey = std::tuple<Channel::Kind, std::uint64_t, std::uint32_t>;

  // races.cpp: accesses.
  Watched& watched(Warp& warp);
  Watched& entry(Warp& warp);
  const Watched* find(Who warp) const;
  std::uint64_t number(const Cta& cta) const { return cta.cluster.index * cta.cluster.ctas.size() + cta.rank; }
  std::uint64_t flat(const Location& where) const;
  bool is_watched(isa::Space space, const Range* range) const;
  std::uint32_t site_of(Watched& w, const Doer& doer);
  std::uint32_t new_site(const Doer& doer, Time time);
  void collect_sites();
  std::uint32_t width(std::uint32_t pc, std::uint32_t bytes) const;
  void synchronise(Watched& w, const Touch& t, std::uint64_t base, const Doer& d, bool before);
  bool looks_again(Watched& w, const Touch& t, std::uint64_t base, std::uint32_t site) const;
  bool updates_again(const Watched& w, const Touch& t, std::uint64_t address) const;
  static bool updates_at_once(const Watched& w, const Touch& t, bool red);
  Mask record_together(Doer& doer, std::uint32_t site, std::uint64_t address, std::uint64_t bytes, Mask lanes);
  bool go_on_alike(const Doer& doer, std::uint32_t site, Touches earlier, Mask lanes);
  bool waits_again(Watched& w, const Touch& t, std::uint64_t place, std::uint64_t base) const;
  void visit(const Doer& doer, std::uint32_t site, const Location& where, const Cta& from);
  static bool knows_of(const View& view, std::uint64_t cta);
  static Code too_late(const Doer& d, std::uint64_t host);
  void touch(Doer& doer, std::uint32_t site, std::uint64_t address, std::uint64_t bytes);
  void record(Doer& doer, std::uint32_t site, std::uint64_t address, std::uint64_t bytes);
  bool fills_again(const Doer& doer, Touches earlier) const;
  bool comes_first(const Doer& doer, Touches earlier) const;
  bool is_repeated(const Doer& d, const TouchCell& cell, std::uint32_t site);
  bool touch_quickly(Doer& doer, std::uint32_t site, TouchBlock& block, std::size_t cell, std::uint64_t address) const;
  bool write_quickly(Doer& doer, std::uint32_t site, TouchBlock& block, std::size_t first, std::size_t next,
                     std::uint64_t address) const;
  bool is_over(Doer& doer, Touches earlier, std::uint64_t address) const;
  bool is_known(Doer& doer, std::uint32_t site, std::uint64_t address) const;
  void write_cell(Doer& doer, std::uint32_t site, TouchCell& cell, std::uint64_t address);
  Touches forget(Doer& doer, Touches earlier);
  static bool includes_manner(const Doer& doer, const Site& site);
  bool stands_for(const Doer& doer, const Site& site, int lane) const;
  bool stands_for(Doer& doer, std::uint32_t site, int lane) const;
  Mask stood_for(Doer& doer, std::uint32_t site) const;
  Touches add(Doer& doer, Touches to, std::uint32_t site);
  void drop_earlier(std::vector<Lanes>& set) const;
  static bool knows(const Known& clock, const Site& site, int lane);
  static bool knows(const Doer& doer, View::Kind kind, const Site& site, int lane);
  void check(const Doer& doer, Touches earlier, std::uint64_t address);

  // stripes.cpp: reads of whole warps.
  bool read_in_stripes(Doer& doer, std::uint32_t site, const Touch& touch, std::uint64_t base, Mask lanes);
  bool read_stripe(Doer& doer, Stripe stripe, std::uint64_t block);
  void add_stripe(TouchBlock& block, const Stripe& stripe);
  void forget_earlier(std::vector<Stripe>& stripes) const;
  bool is_over(Doer& doer, const TouchBlock& block, std::uint32_t words, std::uint64_t address) const;
  void write_stripes(Doer& doer, TouchBlock& block, std::uint32_t words, std::uint64_t address);
  void lay_in_cells(std::uint64_t address);

  // verdicts.cpp: why two accesses race.
  void judge(const Doer& doer, const Site& site, int lane, std::uint64_t address);
  std::optional<Code> verdict(const Doer& doer, const Site& site, int lane, std::uint64_t address) const;
  bool is_relayed(const Doer& doer, const Site& earlier, int lane) const;
  bool is_told_by_update(const Site& site, int lane, std::uint64_t address) const;
  bool acquired(const Doer& doer, const Site& site, int lane, std::uint64_t address) const;
  bool frees(std::uint32_t pc) const;
  bool is_loaded(const Doer& doer, const Site& site) const;
  Code unfenced(const Doer& doer, const Site& site) const;
  bool is_executed(const Doer& doer, const Site& site, int lane) const;
  bool is_equal(const Doer& doer, const Site& site, int lane, Code code) const;
  bool is_guess(const Doer& doer, const Site& site) const;
  bool lacks_init_fence(const Doer& doer, const Site& site, int lane) const;
  bool shares_volatile_data(const Doer& doer, const Site& site) const;
  bool may_come_late(const Doer& doer, const Site& site) const;
  bool is_narrow(Doer doer, Site site) const;
  bool morally_strong(const Doer& doer, const Site& site) const;

  // operations.cpp: those that finish by themselves.
  static std::uint64_t key_of(const Cta& cta, std::uint64_t operation) { return cta.cluster.index << 32 | operation; }
  static std::uint64_t key_of(const Agent& agent) { return key_of(agent.warp->cta, agent.operation); }
  Ongoing* ongoing(std::uint64_t key);
  void forget_operation(std::uint64_t key);
  void by_operation(const Agent& agent, const Location& where, Access kind, Manner manner);
  void touch_again(Doer& doer, std::uint32_t site, std::uint64_t address, std::uint64_t bytes);
  void signals(const Operation& operation, const Ongoing& ongoing);
  Who new_stream() { return stream_bit | ++streams_; }
  Who& pipe(Pipe pipe, const Warp& warp, int lane);
  Who first_of_group(const Warp& warp) const;
  void know_as_group(Ongoing& product, const Warp& warp);
  Known executed_before(const Warp& warp, Time through);
  void follow(Ongoing& now, const Operation& operation);
  bool follows(const Doer& doer, const Site& site, const Known& clock) const;
  std::vector<Moment> finished_groups(Who thread, Group group, std::uint64_t through) const;

  // copies.cpp: cp.async of threads.
  static Who who_copies(Who who) { return who | copies_bit; }
  bool by_copy(const Agent& agent, const Location& where, Access kind, const Manner& manner);
  static void wait_for_copies(Watched& w, Mask mask, std::uint64_t through);
  static std::span<const Moment> sequenced_by(const Watched& w, Mask mask, const Own& own, Moment* out);
  static std::size_t copied_by(Who warp, Mask present, Mask mask, const Own& own, Moment* out);

  // beside.cpp: the launch before.
  void look_beside(const Touch& touch);
  void look_beside(const Agent& agent, const Location& where, Access kind);
  void look_beside(Who thread, int lane, std::uint32_t pc, const View& view, Access kind, std::uint64_t address,
                   std::uint64_t bytes);

  // knowledge.cpp: who learns what.
  Time tick(Watched& w);
  Time begin(Watched& w);
  static std::size_t done_by(const Watched& w, Mask mask, Time time, Moment* out);
  static std::span<const Moment> over_by(const Watched& w, Mask mask, Time time, const Own& own, Moment* out);
  static View published(const Watched& w, const View& view, Mask lanes, Time time, const Own& own);
  static View published(const Watched& w, const View& view, Mask lanes, Time time) {
    return published(w, view, lanes, time, w.own);
  }
  template <class F>
  static void change(Watched& w, Mask lanes, F f);
  static const View& view_of(const Watched& w, int lane);
  static Held& held(Watched& w, int lane);
  Meeting& meeting(const Channel& channel);
  void flush(Meeting& m, std::uint64_t home);
  void arrive_at_barrier(Meeting& m, const Watched& w, Mask mask, std::uint32_t barrier, std::uint32_t pc, bool stays);
  static void release_by_fences(Meeting& m, const Watched& w, Mask mask);
  void gather(Meeting& m, std::uint64_t home, const Watched& w, const View& view, const Manner& manner);
  static bool tells_nothing(const Watched& w, int lane, const Meeting& m);
  bool includes(Scope scope, std::uint64_t cta, std::uint64_t other) const;
  std::size_t needed(std::uint64_t cta, std::uint64_t other) const;
  void read_releases(Watched& w, Mask mask, std::uint64_t address, const Doer& d, bool before);
  void write_release(Watched& w, Mask mask, std::uint64_t address, const Doer& d);
  void acquire_fence(Watched& w, int lane, Scope scope);
  bool fences_again(Watched& w, Mask mask, const Manner& manner);
  void fence(Watched& w, Mask mask, const Manner& manner);
  void sequential_fence(Watched& w, Mask mask, Time time, Scope scope);
  void fence_among_narrow(Watched& w, int lane, Scope scope);
  static void hold(Watched& w, View& held, const View& view);

  // findings.cpp: words.
  void find_same_lines();
  std::string place_of(std::uint32_t pc) const;
  void report(Code code, const Doer& doer, const Site& site, int lane, std::uint64_t address);
  void report_beside(Who thread, int lane, std::uint32_t pc, Access kind, std::uint64_t address, std::uint64_t bytes,
                     const std::string& by);
  void report_early(const Doer& d, std::uint64_t host, const Location& where);
  void report_lap(const Watched& w, int lane, std::uint32_t barrier, std::uint32_t pc, std::uint32_t earlier,
                  bool again);
  std::string refusal(const WentOn& warp, int lane) const;
  std::string name(Who thread, int lane) const;
  launch::Dim3 thread_id(Who thread, int lane) const;
  sim::Site site(Who thread, int lane, std::uint32_t pc, std::uint64_t bytes, std::uint64_t address) const;
  std::string owner(std::uint64_t address) const;

  static constexpr std::size_t least_to_collect = 1 << 16;

  const Launch& launch_;
  Checks checks_;
  std::vector<Recording::Unfinished> beside_;
  Who launch_before_ = 0;  // a stream
  Time now_ = 2;           // so that even who has done nothing has a time before this to tell of
  std::uint64_t streams_ = 0;
  TouchPlane plane_;
  TouchSets sets_;
  std::vector<Site> sites_;
  std::vector<std::uint32_t> free_sites_;          // nothing refers to them
  std::size_t collect_at_ = least_to_collect;      // so many sites
  std::uint32_t last_of_operations_ = 0;           // the site that was made last for an operation
  std::array<std::uint32_t, 2> last_of_copies_{};  // of reads, of writes
  std::unordered_map<Who, std::unique_ptr<Watched>> warps_;
  const Warp* last_warp_ = nullptr;
  Watched* last_watched_ = nullptr;
  Ongoing* last_ongoing_ = nullptr;  // of number last_operation_
  std::uint64_t last_operation_ = 0;
  // What an operation found in the window of an address.
  struct {
    const View* view = nullptr;
    Time begun = 0;
    std::uint64_t window = 0;
    Asks asks{};
  } asked_;
  std::vector<WentOn> went_on_;      // of warps of clusters that are over
  const Touch* touching_ = nullptr;  // a store, while it is judged
  bool equal_ = false;               // it writes beside another lane's store of the same value
  bool replaces_ = false;            // of another warp, by a constant: thousands may, and the last stands for them
  Known memo_clock_;                 // knows all lanes of memo_site_
  std::uint32_t memo_site_ = 0;
  std::map<ChannelKey, Meeting> meetings_;
  std::map<std::uint64_t, Released> releases_;  // by address
  std::uint64_t versions_ = 0;
  // The launch's time when a CTA last released with a scope, by a fence or by an access; by CTA and scope.
  std::unordered_map<std::uint64_t, std::array<Time, 4>> fenced_;
  const bool narrow_fences_;                            // the text has a fence.sc of a CTA or a cluster
  std::vector<Release> sequential_;                     // then: of each fence.sc
  std::uint64_t sequentials_ = 0;                       // how often that changed
  std::unordered_map<std::uint64_t, Ongoing> ongoing_;  // by cluster and number
  std::unordered_map<std::uint64_t, Copying> copying_;  // likewise
  std::map<std::pair<Who, Pipe>, Who> pipes_;           // by thread, warp or warpgroup
  // What the warps of a warpgroup had done before its products, with the product's number; by its first warp.
  std::map<Who, std::vector<std::pair<Time, Known>>> products_;
  struct Loaded {  // what a warp's tcgen05.ld up to number `through` give has been in its registers since `time`
    Time through, time;
  };
  std::map<Who, Loaded> loaded_;  // by warp
  struct Begun {                  // what a thread has begun of tcgen05.mma, cp and shift
    struct One {
      Time begun, time;  // in the thread's time; its number in the stream
    };
    Who thread, stream;
    std::vector<One> operations;
    Known behind;  // what its products have followed of other threads
  };
  std::unordered_map<std::uint64_t, std::vector<Begun>> begun_;  // by cluster
  std::map<Who, std::pair<Who, Who>> bulk_;                      // by thread: reads, writes
  struct Acquired {                                              // a map, by fence.proxy.tensormap::generic.acquire
    Who thread;
    Time time;
    Known covers;
  };
  std::map<std::uint64_t, std::vector<Acquired>> maps_;  // by the map's address
  std::unordered_map<std::uint64_t, Left> left_;         // by CTA
  struct Visit {
    const void* host = nullptr;
    std::uint32_t site = 0;
    int lane = 0;
    bool operator==(const Visit&) const = default;
  };
  Visit last_visit_;
  std::unordered_map<std::uint64_t, std::map<std::pair<Who, int>, std::uint32_t>> visits_;  // from other CTAs: sites
  struct Found {
    Report report;
    std::uint64_t times;
  };
  std::vector<Found> found_;
  std::map<std::tuple<Code, std::uint32_t, std::uint32_t>, std::size_t> known_;
  const bool tensor_fences_;  // the text has some, or an author wrote it
  const TextValues values_;
  std::vector<std::uint32_t> same_line_;  // by pc: the first with its line and mnemonic; an unrolled loop has many
};

// f(view, lanes) on what each of these lanes knows; lanes that know the same stay together, so that no two parts do.
template <class F>
void Races::change(Watched& w, Mask mask, F f) {
  const std::size_t count = w.parts.size();
  std::uint64_t fresh = 0;  // parts that may be as another is
  for (std::size_t i = 0; i < count; ++i) {
    const Mask some = w.parts[i].lanes & mask;
    if (!some) continue;
    Part changed{some, w.parts[i].view};
    f(changed.view, some);
    if (changed.view == w.parts[i].view) continue;
    ++w.learned;
    if (some == w.parts[i].lanes) {
      w.parts[i] = std::move(changed);
      fresh |= std::uint64_t{1} << i;
    } else {
      w.parts[i].lanes &= ~some;
      fresh |= std::uint64_t{1} << w.parts.size();
      w.parts.push_back(std::move(changed));
    }
  }
  while (fresh) {
    const auto last = static_cast<std::size_t>(63 - std::countl_zero(fresh));
    fresh &= ~(std::uint64_t{1} << last);
    for (std::size_t i = w.parts.size(); i-- > 0;) {
      if (i == last || !(w.parts[i].view == w.parts[last].view)) continue;
      const auto [first, second] = std::minmax(i, last);
      w.parts[first].lanes |= w.parts[second].lanes;
      w.parts.erase(w.parts.begin() + static_cast<std::ptrdiff_t>(second));
      break;
    }
  }
}

}  // namespace ptx::sim
